/** Everything about one query except its history, in one statement. */

import { combined, literal, momentOf, numberOf, system } from "../../data/select";

/** The statement for one query; its id is a text of the address, and may name none. */
export function queryFacts(id: string) {
  const of = (relation: string) => `FROM ${system(relation)} WHERE query_id = ${literal(id)}`;
  return combined(
    {
      queries: {
        columns: {
          id: "id",
          name: "name",
          sink: "sink_fqn",
          kind: "kind",
          state: "current_state",
          intended: "intended_state",
          owner: '"owner"',
          pool: "compute_pool_name",
          created: "created_at",
          updated: "updated_at",
          message: "message",
          sqlstate: "sqlstate",
          restarts: "restarts",
          version: '"version"',
          sql: "query",
        },
        from: `FROM ${system("queries")} WHERE id = ${literal(id)}`,
      },
      metrics: {
        columns: {
          duration: "batch_duration_ms",
          age: "batch_age_ms",
          rate: "input_rows_per_second",
          input: "input_rows_total",
          output: "output_rows_total",
          watermark: "watermark",
          watermarkLag: "watermark_lag_ms",
          stateRows: "state_rows",
          stateBytes: "state_bytes",
          late: "late_rows_total",
          bad: "bad_records_total",
          timeless: "timeless_rows_total",
          slotSeconds: "slot_seconds_total",
          processorSeconds: "processor_seconds_total",
        },
        from: of("query_metrics"),
      },
      splits: {
        columns: { entity: "entity", split: "split", lag: "source_lag", eventTime: "source_event_time" },
        from: of("query_splits"),
      },
      findings: {
        columns: { code: "code", step: "step", since: "since", finding: "finding", remedy: "remedy" },
        from: of("query_findings"),
      },
      plan: {
        columns: {
          position: '"position"',
          step: "step",
          kind: "kind",
          inputs: "inputs",
          description: "description",
          entity: "entity",
          sql: "sql",
        },
        from: of("query_plan_steps"),
      },
      conditions: {
        columns: { step: "step", input: "step_input_rows_total", output: "step_output_rows_total" },
        from: of("query_steps"),
      },
      operators: {
        columns: { operator: "operator", rows: "operator_state_rows", bytes: "operator_state_bytes" },
        from: of("query_operators"),
      },
      phases: { columns: { phase: "phase", duration: "batch_phase_ms" }, from: of("query_phases") },
      events: { columns: { time: '"time"', state: '"state"', message: "message" }, from: of("query_events") },
      versions: {
        columns: {
          version: '"version"',
          state: '"state"',
          since: "since",
          until: '"until"',
          sql: "query",
          message: "message",
        },
        from: of("query_versions"),
      },
      savepoints: {
        columns: {
          name: "name",
          version: "query_version",
          batch: "batch",
          size: "size_bytes",
          expires: "expires_at",
          created: "created_at",
          interrupted: "is_interrupted",
        },
        from: of("savepoints"),
      },
      sources: {
        columns: { relation: "source" },
        from: `FROM ${system("lineage")} WHERE target_kind = 'query' AND target = ${literal(id)}`,
      },
    },
    ["queries", "query_events", "query_versions", "query_plan_steps", "savepoints", "lineage"],
  );
}

export type QueryFacts = ReturnType<ReturnType<typeof queryFacts>["read"]>;

export interface SplitFacts {
  readonly entity: string;
  readonly split: string;
  readonly lag: number | null;
  readonly eventTime: number | null;
  /** True of the split that the watermark of its entity waits for. */
  readonly holdsWatermark: boolean;
}

/**
 * The splits in order, with the one of each entity that holds the watermark: one without a record with an event time, or else the one
 * whose newest event time is the oldest. No split holds it if no split has an event time: then nothing waits for it, or no record came.
 */
export function splitsOf(rows: QueryFacts["splits"]): readonly SplitFacts[] {
  const splits = rows.map((row) => ({
    entity: row.entity ?? "",
    split: row.split ?? "",
    lag: numberOf(row.lag),
    eventTime: momentOf(row.eventTime),
  }));
  const holders = new Map<string, (typeof splits)[number]>();
  for (const entity of new Set(splits.map((split) => split.entity))) {
    const own = splits.filter((split) => split.entity === entity);
    const isTimed = own.length > 1 && own.some((split) => split.eventTime !== null);
    const order = (split: (typeof splits)[number]) => split.eventTime ?? Number.NEGATIVE_INFINITY;
    const [first] = [...own].sort((one, other) => order(one) - order(other));
    if (isTimed && first !== undefined) holders.set(entity, first);
  }
  return splits
    .map((split) => ({ ...split, holdsWatermark: holders.get(split.entity) === split }))
    .sort(
      (one, other) =>
        one.entity.localeCompare(other.entity) ||
        one.split.localeCompare(other.split, "en", { numeric: true }),
    );
}

/** Records that wait to be read: of an entity, or of all. */
export function lagOf(splits: readonly SplitFacts[], entity?: string): number | null {
  const known = splits.flatMap((split) =>
    split.lag === null || (entity !== undefined && split.entity !== entity) ? [] : [split.lag],
  );
  return known.length === 0 ? null : known.reduce((sum, lag) => sum + lag, 0);
}
