/** The names that statements of this tab run in: kept over a reload, and put back as far as they are still there. */

import { failureOf } from "../api/failures";
import type { StatementClient } from "../api/statements";
import type { StatementContext } from "../api/wire";
import { quoteIdentifier } from "../sql/identifiers";

const CONTEXT_KEY = "headrace.context";

export type ContextField = "role" | "database" | "schema" | "store" | "computePool";

/** Order of setting: a role's objects follow the role, a schema its database. */
const USE: readonly (readonly [ContextField, string])[] = [
  ["role", "USE ROLE"],
  ["database", "USE DATABASE"],
  ["schema", "USE SCHEMA"],
  ["store", "USE STORE"],
  ["computePool", "USE COMPUTE_POOL"],
];

/** SQLSTATEs of a name in the context that is there no longer: role, database, schema, organization, store, compute pool. */
const NAME_IS_GONE = new Set(["3D001", "3D002", "3D003", "3D004", "3D006", "3D023"]);

export function isAboutContext(sqlState: string): boolean {
  return NAME_IS_GONE.has(sqlState);
}

export function statementToUse(field: ContextField, name: string): string {
  const statement = USE.find(([one]) => one === field)?.[1] ?? "USE";
  return `${statement} ${quoteIdentifier(name)};`;
}

export function keptContext(): StatementContext {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(CONTEXT_KEY) ?? "{}");
    const names = Object.entries(kept ?? {}).filter((entry) => typeof entry[1] === "string");
    return Object.fromEntries(names) as StatementContext;
  } catch {
    return {};
  }
}

export function keepContext(context: StatementContext): void {
  sessionStorage.setItem(CONTEXT_KEY, JSON.stringify(context));
}

/**
 * Context that the server gives a new session, with those of the given names that it still accepts: each is set by its USE statement. A
 * dropped database takes its schema along. Throws RequestFailed when the server refuses the token or is away.
 */
export async function restoredContext(
  client: StatementClient,
  wanted: StatementContext,
): Promise<StatementContext> {
  // Without any name nothing can be missing: this answers wherever the token is good.
  let context = (await client.run({ statement: "LIST DATABASES;", context: {} })).context ?? {};
  for (const [field] of USE) {
    const name = wanted[field];
    if (name === undefined || name === context[field]) continue;
    if (field === "schema" && context.database !== wanted.database) continue;
    try {
      context = (await client.run({ statement: statementToUse(field, name), context })).context ?? context;
    } catch (error) {
      if (failureOf(error).kind !== "sql") throw error;
    }
  }
  return context;
}
