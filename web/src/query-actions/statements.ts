/** Statements that act on a query. */

import { literal } from "../data/select";
import { quoteIdentifier } from "../sql/identifiers";

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** An id stands bare, anything else as an identifier. */
export function queryName(id: string): string {
  return UUID.test(id) ? id : quoteIdentifier(id);
}

/** `savepoint` is the name of a savepoint to take before, empty for none. */
export function terminateStatement(id: string, savepoint: string): string {
  const taken = savepoint.trim() === "" ? "" : ` WITH SAVEPOINT ${quoteIdentifier(savepoint.trim())}`;
  return `TERMINATE QUERY ${queryName(id)}${taken};`;
}

export function restartStatement(id: string): string {
  return `RESTART QUERY ${queryName(id)};`;
}

/** Null without a name, or with days that are not a number. */
export function savepointStatement(id: string, name: string, days: string): string | null {
  if (name.trim() === "" || !/^\d*$/.test(days.trim())) return null;
  const kept = days.trim() === "" ? "" : ` WITH (${literal("retention.days")} = ${Number(days)})`;
  return `CREATE SAVEPOINT ${quoteIdentifier(name.trim())} ON QUERY ${queryName(id)}${kept};`;
}

export function rollBackStatement(id: string, version: number): string {
  return `ALTER QUERY ${queryName(id)} ROLLBACK TO VERSION ${version};`;
}

/** STOP or START of the relation that a query writes, by its full name. */
export function pauseStatement(sink: string, isPaused: boolean): string {
  return `${isPaused ? "START" : "STOP"} RELATION ${sink};`;
}

/** Null without a SELECT. */
export function replaceStatement(id: string, select: string): string | null {
  const text = select.trim().replace(/;$/, "").trim();
  return text === "" ? null : `ALTER QUERY ${queryName(id)} AS ${text};`;
}

/** Reason why an action is not possible in a query's state; null if it is. */
export function stateRefusal(
  action: "terminate" | "restart" | "savepoint" | "replace" | "pause",
  state: string,
): string | null {
  const isOver = state === "terminated" || state === "terminate_requested";
  if (action === "terminate" && isOver) return "The query has ended already.";
  if (action === "savepoint" && isOver) return "The query has ended: it takes no more savepoints.";
  if (action === "pause" && isOver) return "The query has ended: restart it instead.";
  if (action === "replace" && isOver) return "The query has ended: restart it first.";
  if (action === "restart" && state === "terminate_requested") return "The query is being ended.";
  return null;
}
