/** Queries and compute pools, in the words of the page. */

import { readPath } from "../sql/identifiers";
import type { PoolRow, QueryRow } from "./lists";

export interface QueryItem {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly intendedState: string;
  readonly sql: string;
  /** The relations that it writes, by their full names. */
  readonly sink: string;
  /** Reason of its end, or of its waiting. */
  readonly message: string;
}

export interface PoolItem {
  readonly name: string;
  readonly size: string;
  readonly state: string;
  readonly intendedState: string;
  /** Error of its process. */
  readonly message: string;
}

/** Queries that run or should run first, ended ones last; within that, in the order of their creation. */
export function queryItems(rows: readonly QueryRow[]): readonly QueryItem[] {
  const queries = oldestFirst(rows).map((row) => ({
    id: row.id,
    name: nameOf({ id: row.id, name: row.name, sink: row.sinkFqn }),
    state: row.currentState,
    intendedState: row.intendedState,
    sql: row.query,
    sink: row.sinkFqn,
    message: row.message ?? "",
  }));
  return [...queries.filter((query) => !isEnded(query)), ...queries.filter(isEnded)];
}

export function oldestFirst<Row extends { readonly createdAt: string }>(
  rows: readonly Row[],
): readonly Row[] {
  return [...rows].sort((one, other) => Date.parse(one.createdAt) - Date.parse(other.createdAt));
}

export function poolItem(row: PoolRow): PoolItem {
  return {
    name: row.name,
    size: row.size.toLowerCase(),
    state: row.actualState,
    intendedState: row.intendedState,
    message: row.errorMessages ?? "",
  };
}

/** Name of a query; without one, the relation that it writes. An application writes several, and has a name. */
export function nameOf(query: {
  readonly id: string | null;
  readonly name: string | null;
  readonly sink: string | null;
}): string {
  return query.name || readPath(query.sink ?? "").at(-1) || query.id || "";
}

export function isEnded(query: { readonly state: string }): boolean {
  return query.state === "terminated";
}

/** True if it was stopped by a user. */
export function isStopping(pool: PoolItem): boolean {
  return pool.intendedState === "stopped";
}
