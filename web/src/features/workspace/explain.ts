/** EXPLAIN before CREATE: what a statement would do, before it does it. */

import type { StatementClient } from "../../api/statements";
import type { StatementContext } from "../../api/wire";

const SKIP_KEY = "headrace.explain.skip";

/** True if the user wants CREATE to run without an explanation. */
export function isExplanationSkipped(): boolean {
  return localStorage.getItem(SKIP_KEY) !== null;
}

export function skipExplanations(): void {
  localStorage.setItem(SKIP_KEY, "1");
}

/** Names of the statements that start a query which keeps running. */
const CREATES_QUERY = new Set(["CreateRelationAs", "ReplaceRelation"]);

/** True if a text is a statement to explain before it is run; false if the server cannot read it, which running it then reports. */
export async function isExplained(
  client: StatementClient,
  text: string,
  context: StatementContext,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const [first] = await client.outline(text, context, signal);
    return first !== undefined && CREATES_QUERY.has(first.kind);
  } catch {
    return false;
  }
}

/** The lines of the plan; null if the server has no plan for the statement, which then reports its own error or runs at once. */
export async function planOf(
  client: StatementClient,
  statement: string,
  context: StatementContext,
  signal: AbortSignal,
): Promise<readonly string[] | null> {
  try {
    const outcome = await client.run({ statement: `EXPLAIN ${statement}`, context, signal });
    return outcome.kind === "result" ? outcome.rows.map(([line]) => line ?? "") : null;
  } catch {
    return null;
  }
}
