{{ config(
  materialized='schema_registry',
  alias=env_var('HEADRACE_TEST_REGISTRY_NAME'),
  parameters={'type': 'CONFLUENT', 'uris': env_var('HEADRACE_TEST_REGISTRY')}
) }}
