{{ config(
  materialized='descriptor_source',
  alias=env_var('HEADRACE_TEST_MESSAGES'),
  parameters={'file': 'orders.desc'}
) }}
