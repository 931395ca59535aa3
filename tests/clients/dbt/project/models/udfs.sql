{% set again = env_var('HEADRACE_TEST_UDFS') ~ '_again' %}
{{ config(
  materialized='function_source',
  alias=env_var('HEADRACE_TEST_UDFS'),
  parameters={'file': 'udfs.jar', 'description': 'what we do with texts'},
  pre_hook='DROP FUNCTION IF EXISTS ' ~ again ~ '(VARCHAR, BIGINT)',
  post_hook='CREATE FUNCTION ' ~ again ~ "(text VARCHAR, times BIGINT) RETURNS VARCHAR LANGUAGE JAVA
    WITH ('source.name' = '" ~ env_var('HEADRACE_TEST_UDFS') ~ "', 'class.name' = 'com.x.Again')"
) }}
