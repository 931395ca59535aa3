-- depends_on: {{ ref('order_topic') }}
{{ config(
  materialized='stream',
  parameters={'store': env_var('HEADRACE_TEST_STORE'), 'topic': env_var('HEADRACE_TEST_TOPIC'), 'value.format': 'JSON'}
) }}
