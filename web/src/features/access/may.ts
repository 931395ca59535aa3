/** "May a role do something with an object?", answered by CAN ROLE. */

import type { ResultSet } from "../../api/statements";
import { quoteIdentifier } from "../../sql/identifiers";

export function canStatement(role: string, privilege: string, target: string): string {
  return `CAN ROLE ${quoteIdentifier(role)} ${privilege} ON ${target};`;
}

export interface Verdict {
  readonly isAllowed: boolean;
  /** The chain of privileges with their sources, or the sentence that names the missing ones. */
  readonly reasons: readonly string[];
}

export function readVerdict(result: ResultSet): Verdict {
  const [allowed, reason] = result.rows[0] ?? [];
  const isAllowed = allowed?.toLowerCase() === "true";
  return { isAllowed, reasons: isAllowed ? (reason ?? "").split(" → ") : [reason ?? ""] };
}
