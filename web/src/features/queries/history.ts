/** The metrics of a query over time, as the columns of charts. */

import type { ResultSet } from "../../api/statements";
import { literal, momentOf, numberOf, selectFrom } from "../../data/select";

export const RANGES = {
  "15m": { label: "15 min", interval: "'15' MINUTE" },
  "1h": { label: "1 h", interval: "'1' HOUR" },
  "6h": { label: "6 h", interval: "'6' HOUR" },
  "24h": { label: "24 h", interval: "'24' HOUR" },
} as const;
export type Range = keyof typeof RANGES;

type Values = readonly (number | null)[];

export interface History {
  /** Seconds since the epoch. */
  readonly times: readonly number[];
  readonly inputRate: Values;
  readonly outputRate: Values;
  readonly watermarkLagS: Values;
  readonly stateRows: Values;
  readonly stateBytes: Values;
  readonly batchMs: Values;
  readonly backlogBytes: Values;
  /** Slots that its tasks occupied on average since the sample before. */
  readonly slots: Values;
  readonly processors: Values;
}

export function historyOf(id: string, range: Range) {
  const { statement, read } = selectFrom(
    "query_metrics_history",
    [
      "time",
      "input_rows_total",
      "output_rows_total",
      "watermark_lag_ms",
      "state_rows",
      "state_bytes",
      "batch_duration_ms",
      "backlog_bytes",
      "slot_seconds_total",
      "processor_seconds_total",
    ],
    `WHERE query_id = ${literal(id)} AND "time" > CURRENT_TIMESTAMP - INTERVAL ${RANGES[range].interval} ORDER BY "time"`,
  );
  return {
    statement,
    read: (result: ResultSet): History => {
      const rows = read(result);
      const times = rows.map((row) => (momentOf(row.time) ?? 0) / 1000);
      const values = (name: keyof (typeof rows)[number]) => rows.map((row) => numberOf(row[name]));
      return {
        times,
        inputRate: rates(times, values("input_rows_total")),
        outputRate: rates(times, values("output_rows_total")),
        watermarkLagS: values("watermark_lag_ms").map((lag) => (lag === null ? null : lag / 1000)),
        stateRows: values("state_rows"),
        stateBytes: values("state_bytes"),
        batchMs: values("batch_duration_ms"),
        backlogBytes: values("backlog_bytes"),
        slots: rates(times, values("slot_seconds_total")),
        processors: rates(times, values("processor_seconds_total")),
      };
    },
  };
}

/** Growth of a sum per second. A sum that falls began anew, when the server was started: the rate is not known there. */
export function rates(times: readonly number[], sums: Values): Values {
  return sums.map((sum, index) => {
    const before = sums[index - 1];
    const [start, end] = [times[index - 1], times[index]];
    if (sum === null || before === null || before === undefined) return null;
    if (start === undefined || end === undefined || end <= start || sum < before) return null;
    return (sum - before) / (end - start);
  });
}

export function isFlat(values: Values): boolean {
  return values.every((value) => value === null || value === 0);
}
