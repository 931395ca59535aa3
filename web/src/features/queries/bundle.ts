/** The support bundle of a query: what its page knows, as one JSON file to send to somebody who helps. */

import type { QueryFacts } from "./facts";

/** System relations contain no secrets, and no rows of the query's data. */
export function bundleOf(facts: QueryFacts, server: unknown, now: Date): string {
  return `${JSON.stringify({ written: now.toISOString(), server, ...facts }, null, 2)}\n`;
}
