/** Rights of the active role, and the reason where one is missing. */

import type { ResultSet } from "../api/statements";
import { useAnswer } from "./use-answer";

const RIGHTS = ["effective_privileges"];

/** Null if it is allowed, or not known yet; else the missing privileges in words. */
export function useRefusal(privilege: string, object: string, isEnabled = true): string | null {
  const { data } = useAnswer({
    statement: `CAN I ${privilege} ON ${object};`,
    read: readRefusal,
    relations: RIGHTS,
    isEnabled,
  });
  return data;
}

/** Reads the answer of CAN I: `Allowed`, `Reason`. */
function readRefusal(result: ResultSet): string | null {
  const [allowed, reason] = result.rows[0] ?? [];
  if (allowed?.toLowerCase() === "true") return null;
  return `Your role lacks: ${reason ?? "the privilege"}`;
}
