/** The last test of a store, in words. */

import { agoText, spanText } from "../../ui/text";

interface Tested {
  /** Time with its offset, as GraphQL has it. */
  readonly lastTestedAt: string | null;
  /** BIGINT is a text in GraphQL. */
  readonly lastTestMs: string | number | null;
}

/** End and duration of the last test; a dash before the first one. */
export function testText({ lastTestedAt, lastTestMs }: Tested, now: number): string {
  if (lastTestedAt === null) return "–";
  return `${agoText(Date.parse(lastTestedAt), now)}, ${spanText(Number(lastTestMs))}`;
}
