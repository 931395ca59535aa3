/** Headrace's words for the editor: highlighting and completion. The server's grammar decides what is valid. */

import { SQLDialect } from "@codemirror/lang-sql";

const STATEMENTS = `
  accept alter begin can copy create describe drop end generate grant insert invite list print reject restart resume
  revoke select set show start stop terminate test update use explain`;

const OBJECTS = `
  api_token api_tokens application changelog changelogs compute_pool compute_pools database databases
  descriptor descriptors descriptor_source descriptor_sources entities entity function functions function_source
  function_sources index integration integrations invitation invitations materialized metrics organization
  organizations queries query relation relations role roles sandbox schema schemas schema_registries schema_registry
  secret secrets security store stores stream streams table tables user users view virtual`;

const CLAUSES = `
  add advance after all and any as asc between by case cast columns cross default define desc distinct else emit escape events
  except exists false first following for from full group having history hop if ilike in inner intersect interval into
  is join key last lateral left like limit match match_recognize measures natural not null nulls of offset on only or order
  ordinality outer over owner partition past pattern preceding primary privileges range rename right rollback row rows session size
  skip state step tag template then to true tumble cumulate union unnest using value values version versions watermark when where window
  with within without`;

const UNITS =
  "millisecond milliseconds second seconds minute minutes hour hours day days week weeks month months year years gap";

const TYPES = `
  array bigint boolean bytes char date decimal double float int integer map smallint string struct time timestamp
  timestamp_ltz tinyint varbinary varchar`;

const FUNCTIONS = `
  abs avg ceil coalesce concat convert_tz count current_date current_time current_timestamp date_format extract
  first_value floor from_unixtime greatest json_exists json_query json_value last_value least length listagg lower max
  min mod now nullif power regexp_extract replace round row_number sqrt stddev_pop substring sum timestampadd
  timestampdiff to_date to_timestamp to_timestamp_ltz trim unix_timestamp upper uuid window_end window_start`;

export const headraceDialect = SQLDialect.define({
  keywords: `${STATEMENTS} ${OBJECTS} ${CLAUSES} ${UNITS}`.replace(/\s+/g, " ").trim(),
  types: TYPES.replace(/\s+/g, " ").trim(),
  builtin: FUNCTIONS.replace(/\s+/g, " ").trim(),
  caseInsensitiveIdentifiers: true,
  identifierQuotes: '"`',
  operatorChars: "*+-%<>!=&|^/",
});
