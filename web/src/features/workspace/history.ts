/** The user's own statements, which the server keeps in its audit log. */

import { type Fields, selectFrom } from "../../data/select";

const COLUMNS = ["id", "time", "outcome", "sqlstate", "role_name", "statement", "duration_ms"] as const;
const NEWEST = "ORDER BY id DESC LIMIT 300";
/** Statements of the page itself, which are not what a user looks for: it repeats reads of the catalog, and checks names by USE. */
const CALM = ["USE %", "SELECT % FROM deltastream.sys.%", "LIST %", "CAN I %", "EXPLAIN %"]
  .map((pattern) => `statement NOT LIKE '${pattern}'`)
  .join(" AND ");

export type PastStatement = Fields<(typeof COLUMNS)[number]>;

/** The newest statements; `isWhole` includes USE and reads of the catalog. */
export function pastStatements(isWhole: boolean) {
  return selectFrom("statements", COLUMNS, isWhole ? NEWEST : `WHERE ${CALM} ${NEWEST}`);
}

/** The statements that contain all words of a text, in the statement, the role, the outcome or the SQLSTATE. */
export function withText(rows: readonly PastStatement[], text: string): readonly PastStatement[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    const all = `${row.statement} ${row.role_name} ${row.outcome} ${row.sqlstate}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}
