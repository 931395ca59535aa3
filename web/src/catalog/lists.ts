/** The lists of objects that several pages show. */

import {
  ComputePoolsDocument,
  type ComputePoolsQuery,
  DatabasesDocument,
  FunctionsDocument,
  LineageDocument,
  type LineageQuery,
  QueriesDocument,
  type QueriesQuery,
  type QueryFiguresFragment,
  type QueryFindingFragment,
  QueryFindingsDocument,
  QueryFindingsPushedDocument,
  QueryMetricsDocument,
  QueryMetricsPushedDocument,
  RelationColumnsDocument,
  RelationsDocument,
  type RelationsQuery,
  SchemasDocument,
  type SchemasQuery,
  StoresDocument,
  type StoresQuery,
} from "../api/operations";
import { listOf } from "../data/use-list";

export type SchemaRow = SchemasQuery["schemas"]["nodes"][number];
export type RelationRow = RelationsQuery["relations"]["nodes"][number];
export type PoolRow = ComputePoolsQuery["computePools"]["nodes"][number];
export type StoreRow = StoresQuery["stores"]["nodes"][number];
export type QueryRow = QueriesQuery["queries"]["nodes"][number];
export type LineageRow = LineageQuery["lineage"]["nodes"][number];
export type QueryFigures = QueryFiguresFragment;
export type QueryFinding = QueryFindingFragment;

export const DATABASES = listOf({
  relation: "databases",
  document: DatabasesDocument,
  connection: ({ databases }) => databases,
});
export const SCHEMAS = listOf({
  relation: "schemas",
  document: SchemasDocument,
  connection: ({ schemas }) => schemas,
});
export const RELATIONS = listOf({
  relation: "relations",
  document: RelationsDocument,
  connection: ({ relations }) => relations,
});
export const RELATION_COLUMNS = listOf({
  relation: "relation_columns",
  document: RelationColumnsDocument,
  connection: ({ relationColumns }) => relationColumns,
});
export const STORES = listOf({
  relation: "stores",
  document: StoresDocument,
  connection: ({ stores }) => stores,
});
export const COMPUTE_POOLS = listOf({
  relation: "compute_pools",
  document: ComputePoolsDocument,
  connection: ({ computePools }) => computePools,
});
export const FUNCTIONS = listOf({
  relation: "functions",
  document: FunctionsDocument,
  connection: ({ functions }) => functions,
});
export const QUERIES = listOf({
  relation: "queries",
  document: QueriesDocument,
  connection: ({ queries }) => queries,
});
export const LINEAGE = listOf({
  relation: "lineage",
  document: LineageDocument,
  connection: ({ lineage }) => lineage,
});
export const QUERY_METRICS = listOf({
  relation: "query_metrics",
  document: QueryMetricsDocument,
  connection: ({ queryMetrics }) => queryMetrics,
  pushed: {
    document: QueryMetricsPushedDocument,
    update: ({ queryMetrics }) => queryMetrics,
    keyOf: ({ queryId }) => [queryId],
  },
});
export const QUERY_FINDINGS = listOf({
  relation: "query_findings",
  document: QueryFindingsDocument,
  connection: ({ queryFindings }) => queryFindings,
  pushed: {
    document: QueryFindingsPushedDocument,
    update: ({ queryFindings }) => queryFindings,
    keyOf: ({ queryId, code, step }) => [queryId, code, step],
  },
});
