import { useMemo } from "react";
import type { Failure } from "../../api/failures";
import { LINEAGE, QUERIES, QUERY_FINDINGS, QUERY_METRICS, RELATIONS } from "../../catalog/lists";
import { failureIn } from "../../data/answers";
import { useList } from "../../data/use-list";
import type { LineageFacts } from "./lineage";

/** The edges with the objects that they connect; null before they are here. */
export function useLineage(): { readonly facts: LineageFacts | null; readonly failure: Failure | null } {
  const edges = useList(LINEAGE, {});
  const queries = useList(QUERIES, {});
  const relations = useList(RELATIONS, {});
  const metrics = useList(QUERY_METRICS, {});
  const findings = useList(QUERY_FINDINGS, {});
  const facts = useMemo(
    () =>
      edges.data === null || queries.data === null || relations.data === null
        ? null
        : {
            edges: edges.data,
            queries: queries.data,
            relations: relations.data,
            metrics: metrics.data ?? [],
            findings: findings.data ?? [],
          },
    [edges.data, queries.data, relations.data, metrics.data, findings.data],
  );
  return { facts, failure: failureIn([edges, queries, relations, metrics, findings]) };
}
