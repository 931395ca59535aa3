/** The list of queries: one statement, its rows, and the filter that stands in the address. */

import type { ResultSet } from "../../api/statements";
import { isEnded, nameOf } from "../../catalog/workload";
import { momentOf, numberOf, reader, system } from "../../data/select";

export interface QuerySummary {
  readonly id: string;
  readonly name: string;
  readonly kind: string;
  readonly state: string;
  readonly intendedState: string;
  readonly pool: string;
  readonly owner: string;
  readonly updatedAt: number | null;
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

const COLUMNS = [
  ["id", "q.id"],
  ["name", "q.name"],
  ["sink", "q.sink_fqn"],
  ["kind", "q.kind"],
  ["state", "q.current_state"],
  ["intended", "q.intended_state"],
  ["pool", "q.compute_pool_name"],
  ["owner", 'q."owner"'],
  ["updated", "q.updated_at"],
  ["message", "q.message"],
  ["restarts", "q.restarts"],
  ["rate", "m.input_rows_per_second"],
  ["input", "m.input_rows_total"],
  ["output", "m.output_rows_total"],
  ["lag", "s.lag"],
  ["watermark", "m.watermark_lag_ms"],
  ["stateRows", "m.state_rows"],
  ["findings", "f.findings"],
] as const;

const read = reader(COLUMNS.map(([name]) => name));

export const QUERIES = {
  statement:
    `SELECT ${COLUMNS.map(([, expression]) => expression).join(", ")} FROM ${system("queries")} AS q ` +
    `LEFT JOIN ${system("query_metrics")} AS m ON m.query_id = q.id ` +
    `LEFT JOIN (SELECT query_id, SUM(source_lag) AS lag FROM ${system("query_splits")} GROUP BY query_id) AS s ON s.query_id = q.id ` +
    `LEFT JOIN (SELECT query_id, COUNT(*) AS findings FROM ${system("query_findings")} GROUP BY query_id) AS f ON f.query_id = q.id ` +
    "ORDER BY q.created_at",
  read: (result: ResultSet): readonly QuerySummary[] =>
    read(result).map((row) => ({
      id: row.id ?? "",
      name: nameOf(row),
      kind: row.kind ?? "",
      state: row.state ?? "",
      intendedState: row.intended ?? "",
      pool: row.pool ?? "",
      owner: row.owner ?? "",
      updatedAt: momentOf(row.updated),
      message: row.message ?? "",
      restarts: numberOf(row.restarts) ?? 0,
      rowsPerSecond: row.state === "running" ? numberOf(row.rate) : null,
      inputRows: numberOf(row.input),
      outputRows: numberOf(row.output),
      lag: numberOf(row.lag),
      watermarkLagMs: numberOf(row.watermark),
      stateRows: numberOf(row.stateRows),
      findings: numberOf(row.findings) ?? 0,
    })),
};

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
