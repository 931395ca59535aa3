{{ config(
  materialized='changelog',
  parameters={'store': env_var('HEADRACE_TEST_STORE'), 'topic': env_var('HEADRACE_TEST_TOPIC') ~ '_totals', 'value.format': 'JSON'}
) }}
SELECT item, COUNT(*) AS orders FROM {{ ref('orders') }} WITH ('starting.position' = 'earliest') GROUP BY item
