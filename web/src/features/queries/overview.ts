/** The list of queries: its rows, and the filter that stands in the address. */

import type { QueryFigures, QueryFinding, QueryRow } from "../../catalog/lists";
import { isEnded, nameOf, oldestFirst } from "../../catalog/workload";
import { numberOf } from "../../data/select";

export interface QuerySummary {
  readonly id: string;
  readonly name: string;
  readonly kind: string;
  readonly state: string;
  readonly intendedState: string;
  readonly pool: string;
  readonly owner: string;
  readonly message: string;
  readonly restarts: number;
  readonly rowsPerSecond: number | null;
  readonly inputRows: number | null;
  readonly outputRows: number | null;
  readonly lag: number | null;
  readonly watermarkLagMs: number | null;
  readonly stateRows: number | null;
  readonly findings: number;
}

/** The queries, oldest first, each with its metrics and its findings as far as they are here. */
export function summaries(
  queries: readonly QueryRow[],
  metrics: readonly QueryFigures[],
  findings: readonly QueryFinding[],
): readonly QuerySummary[] {
  const figures = new Map(metrics.map((row) => [row.queryId, row]));
  const counts = new Map<string, number>();
  for (const { queryId } of findings) counts.set(queryId, (counts.get(queryId) ?? 0) + 1);
  return oldestFirst(queries).map((row) => {
    const of = figures.get(row.id);
    return {
      id: row.id,
      name: nameOf({ id: row.id, name: row.name, sink: row.sinkFqn }),
      kind: row.kind,
      state: row.currentState,
      intendedState: row.intendedState,
      pool: row.computePoolName,
      owner: row.owner,
      message: row.message ?? "",
      restarts: row.restarts,
      rowsPerSecond: row.currentState === "running" ? (of?.inputRowsPerSecond ?? null) : null,
      inputRows: numberOf(of?.inputRowsTotal),
      outputRows: numberOf(of?.outputRowsTotal),
      lag: numberOf(of?.lagRecords),
      watermarkLagMs: numberOf(of?.watermarkLagMs),
      stateRows: numberOf(of?.stateRows),
      findings: counts.get(row.id) ?? 0,
    };
  });
}

export interface QueryFilter {
  readonly text?: string;
  readonly state?: string;
  readonly pool?: string;
  readonly owner?: string;
  readonly ended?: boolean;
}

/** The queries that a filter selects. Ended ones are left out unless they are asked for. */
export function filtered(queries: readonly QuerySummary[], filter: QueryFilter): readonly QuerySummary[] {
  const words = (filter.text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  return queries.filter((query) => {
    const text = `${query.name} ${query.id} ${query.message}`.toLowerCase();
    return (
      (filter.ended === true || filter.state === query.state || !isEnded(query)) &&
      words.every((word) => text.includes(word)) &&
      (filter.state === undefined || filter.state === query.state) &&
      (filter.pool === undefined || filter.pool === query.pool) &&
      (filter.owner === undefined || filter.owner === query.owner)
    );
  });
}

/** The different values of a field, in order. */
export function choices(
  queries: readonly QuerySummary[],
  field: "state" | "pool" | "owner",
): readonly string[] {
  return [...new Set(queries.map((query) => query[field]))].sort();
}
