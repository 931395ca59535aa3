{{ config(
  materialized='store',
  alias=env_var('HEADRACE_TEST_STORE'),
  parameters={
    'type': 'KAFKA',
    'uris': env_var('HEADRACE_TEST_KAFKA'),
    'kafka.sasl.hash_function': 'NONE',
    'tls.disabled': true,
  }
) }}
