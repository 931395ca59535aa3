/** The slots of compute pools over the last day, the hours and costs that they add up to, and which queries used them. */

import type { ResultSet } from "../../api/statements";
import { nameOf } from "../../catalog/workload";
import { combined, literal, momentOf, numberOf, system } from "../../data/select";

const LAST_DAY = `"time" > CURRENT_TIMESTAMP - INTERVAL '24' HOUR`;
/** Longest time between two points of a line. Without samples for longer, the pool had no process, or the server did not run. */
const GAP_S = 180;

export interface PoolTotal {
  readonly pool: string;
  readonly slotHours: number;
  /** Slot hours in which tasks ran. Null for samples of an earlier version. */
  readonly usedHours: number | null;
  /** Null without a price. */
  readonly cost: number | null;
  /** Time in which the process of the pool ran. */
  readonly seconds: number;
}

export const POOL_TOTALS = {
  statement:
    `SELECT pool_name, SUM(slot_hours) AS slot_hours, SUM(cost) AS cost, SUM(seconds) AS seconds, SUM(slot_hours_used) AS used FROM ${system("pool_usage")} ` +
    `WHERE ${LAST_DAY} GROUP BY pool_name ORDER BY pool_name`,
  read: ({ rows }: ResultSet): readonly PoolTotal[] =>
    rows.map(([pool, slotHours, cost, seconds, used]) => ({
      pool: pool ?? "",
      slotHours: numberOf(slotHours) ?? 0,
      usedHours: numberOf(used),
      cost: numberOf(cost),
      seconds: numberOf(seconds) ?? 0,
    })),
};

export interface SlotHistory {
  /** Seconds since the epoch. */
  readonly times: readonly number[];
  readonly slots: readonly (number | null)[];
  readonly used: readonly (number | null)[];
}

/** The most slots of each minute, and how many of them ran a task on average. */
export function slotHistory(pool: string) {
  return {
    statement:
      `SELECT DATE_TRUNC('minute', "time") AS minute, MAX(slots) AS slots, SUM(slot_hours_used) * 3600 / SUM(seconds) AS used ` +
      `FROM ${system("pool_usage")} ` +
      `WHERE pool_name = ${literal(pool)} AND ${LAST_DAY} GROUP BY DATE_TRUNC('minute', "time") ORDER BY minute`,
    read: ({ rows }: ResultSet): SlotHistory => {
      const times: number[] = [];
      const slots: (number | null)[] = [];
      const used: (number | null)[] = [];
      for (const [minute, ofMinute, usedOfMinute] of rows) {
        const time = (momentOf(minute) ?? 0) / 1000;
        const before = times.at(-1);
        if (before !== undefined && time - before > GAP_S) {
          times.push(before + 60);
          slots.push(null);
          used.push(null);
        }
        times.push(time);
        slots.push(numberOf(ofMinute));
        used.push(numberOf(usedOfMinute));
      }
      return { times, slots, used };
    },
  };
}

export interface Use {
  /** Null for the tasks of no query in the list, and for slots without a task. */
  readonly id: string | null;
  readonly name: string;
  readonly slotHours: number;
  readonly processorSeconds: number | null;
  readonly cost: number | null;
}

export interface PoolUse {
  /** The slot hours of the pool, whether tasks ran or not. */
  readonly slotHours: number;
  /** Queries by their slot hours, most first; then other tasks and idle slots, if there are any. */
  readonly uses: readonly Use[];
}

/** Full hours, as the usage of queries has them, and the present one. */
const LAST_HOURS = `DATE_TRUNC('hour', CURRENT_TIMESTAMP) - INTERVAL '23' HOUR`;

/** Select of what each query used of a pool, and of its slots in the same hours. */
export function usesOf(pool: string) {
  const { statement, read } = combined(
    {
      queries: {
        columns: {
          id: "u.query_id",
          name: "q.name",
          sink: "q.sink_fqn",
          slotHours: "SUM(u.slot_hours)",
          processorSeconds: "SUM(u.processor_seconds)",
          cost: "SUM(u.cost)",
        },
        from:
          `FROM ${system("query_usage")} u JOIN ${system("queries")} q ON u.query_id = q.id ` +
          `WHERE u.pool_name = ${literal(pool)} AND u.since >= ${LAST_HOURS} GROUP BY u.query_id, q.name, q.sink_fqn`,
      },
      pool: {
        columns: { slotHours: "SUM(slot_hours)", used: "SUM(slot_hours_used)", cost: "SUM(cost)" },
        from: `FROM ${system("pool_usage")} WHERE pool_name = ${literal(pool)} AND "time" >= ${LAST_HOURS}`,
      },
    },
    [],
  );
  return {
    statement,
    read: (result: ResultSet): PoolUse => {
      const rows = read(result);
      const queries = rows.queries
        .map((row) => ({
          id: row.id,
          name: nameOf(row),
          slotHours: numberOf(row.slotHours) ?? 0,
          processorSeconds: numberOf(row.processorSeconds),
          cost: numberOf(row.cost),
        }))
        .sort((one, other) => other.slotHours - one.slotHours);
      const [pool] = rows.pool;
      const slotHours = numberOf(pool?.slotHours) ?? 0;
      const cost = numberOf(pool?.cost);
      const known = queries.reduce((sum, query) => sum + query.slotHours, 0);
      const used = Math.max(known, numberOf(pool?.used) ?? 0);
      const rest = (name: string, hours: number): readonly Use[] => {
        if (hours <= 0) return [];
        const share = cost === null ? null : (cost * hours) / slotHours;
        return [{ id: null, name, slotHours: hours, processorSeconds: null, cost: share }];
      };
      return {
        slotHours,
        uses: [...queries, ...rest("Other tasks", used - known), ...rest("Idle slots", slotHours - used)],
      };
    },
  };
}
