-- depends_on: {{ ref('broker') }}
{{ config(
  materialized='entity',
  alias=env_var('HEADRACE_TEST_TOPIC'),
  parameters={'store': env_var('HEADRACE_TEST_STORE'), 'kafka.partitions': 1, 'kafka.replicas': 1}
) }}
