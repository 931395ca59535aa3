SELECT item FROM {{ ref('best_sellers') }} WHERE orders < 1
