{{ config(materialized='materialized_view') }}
SELECT item, COUNT(*) AS orders FROM {{ ref('big_orders') }} WITH ('starting.position' = 'earliest') GROUP BY item
