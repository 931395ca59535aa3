{{ config(
  materialized='stream',
  parameters={'store': env_var('HEADRACE_TEST_STORE'), 'topic': env_var('HEADRACE_TEST_TOPIC') ~ '_big', 'value.format': 'JSON'}
) }}
SELECT id, item, price FROM {{ ref('orders') }} WITH ('starting.position' = 'earliest') WHERE price > 10
