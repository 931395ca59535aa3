/** Queries and compute pools, in one statement: an open page repeats it. */

import { combined, type Fields, system } from "../data/select";
import { readPath } from "../sql/identifiers";
import type { PoolItem, QueryItem } from "./listing";

const QUERY = {
  id: "id",
  name: "name",
  sink: "sink_fqn",
  state: "current_state",
  intended: "intended_state",
  sql: "query",
  message: "message",
};
const POOL = {
  name: "name",
  size: "size",
  state: "actual_state",
  intended: "intended_state",
  message: "error_messages",
};

const parts = combined({
  queries: { columns: QUERY, from: `FROM ${system("queries")}` },
  pools: { columns: POOL, from: `FROM ${system("compute_pools")}` },
});

export interface Workload {
  readonly queries: readonly QueryItem[];
  readonly pools: readonly PoolItem[];
}

export const WORKLOAD = {
  statement: parts.statement,
  read: (result: Parameters<typeof parts.read>[0]): Workload => {
    const { queries, pools } = parts.read(result);
    return { queries: readQueries(queries), pools: pools.map(readPool) };
  },
};

/** Queries that run or should run first, ended ones last; within that, in the server's order. */
export function readQueries(rows: readonly Fields<keyof typeof QUERY>[]): readonly QueryItem[] {
  const queries = rows.map((row) => ({
    id: row.id ?? "",
    name: nameOf(row),
    state: row.state ?? "",
    intendedState: row.intended ?? "",
    sql: row.sql ?? "",
    sink: row.sink ?? "",
    message: row.message ?? "",
  }));
  return [...queries.filter((query) => !isEnded(query)), ...queries.filter(isEnded)];
}

function readPool(row: Fields<keyof typeof POOL>): PoolItem {
  return {
    name: row.name ?? "",
    size: (row.size ?? "").toLowerCase(),
    state: row.state ?? "",
    intendedState: row.intended ?? "",
    message: row.message ?? "",
  };
}

/** Name of a query; without one, the relation that it writes. An application writes several, and has a name. */
export function nameOf(query: Fields<"id" | "name" | "sink">): string {
  return query.name || readPath(query.sink ?? "").at(-1) || query.id || "";
}

export function isEnded(query: { readonly state: string }): boolean {
  return query.state === "terminated";
}

/** True if it was stopped by a user. */
export function isStopping(pool: PoolItem): boolean {
  return pool.intendedState === "stopped";
}
