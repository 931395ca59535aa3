/** SELECT statements of system relations, and the rows of their answers by column name. */

import type { ResultSet } from "../api/statements";
import type { Cell } from "../api/wire";
import { quoteIdentifier } from "../sql/identifiers";

/** A row by the names of its columns. */
export type Fields<Name extends string> = Readonly<Record<Name, Cell>>;

/** A statement, and the function that reads the rows of its answer. */
export interface Select<Name extends string> {
  readonly statement: string;
  /** The system relations whose changes renew the answer. */
  readonly relations: readonly string[];
  readonly read: (result: ResultSet) => readonly Fields<Name>[];
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function system(relation: string): string {
  return `deltastream.sys.${quoteIdentifier(relation)}`;
}

/** Reads an answer whose columns stand in the order of `names`. */
export function reader<Name extends string>(names: readonly Name[]): Select<Name>["read"] {
  return (result) =>
    result.rows.map(
      (row) => Object.fromEntries(names.map((name, index) => [name, row[index] ?? null])) as Fields<Name>,
    );
}

/** SELECT of columns of one system relation; `rest` is the text behind FROM. */
export function selectFrom<Name extends string>(
  relation: string,
  columns: readonly Name[],
  rest = "",
): Select<Name> {
  const list = columns.map(quoteIdentifier).join(", ");
  return {
    statement: `SELECT ${list} FROM ${system(relation)}${rest === "" ? "" : ` ${rest}`}`,
    relations: [relation],
    read: reader(columns),
  };
}

/** Part of a `combined` statement: text expressions over one source. */
interface Part<Name extends string> {
  readonly columns: Readonly<Record<Name, string>>;
  /** The text behind SELECT and its list, from FROM on. */
  readonly from: string;
}

export type Parts = Readonly<Record<string, Part<string>>>;
export type Combined<P extends Parts> = {
  readonly [name in keyof P]: readonly Fields<keyof P[name]["columns"] & string>[];
};

/**
 * Statement for rows of several shapes, so that a page that is open asks the server once: UNION ALL of the parts, each as text, with
 * the name of the part before its columns. `relations` are the system relations whose changes renew the answer.
 */
export function combined<const P extends Parts>(
  parts: P,
  relations: readonly string[],
): {
  readonly statement: string;
  readonly relations: readonly string[];
  readonly read: (result: ResultSet) => Combined<P>;
} {
  const entries = Object.entries(parts);
  const width = Math.max(...entries.map(([, part]) => Object.keys(part.columns).length));
  const selects = entries.map(([name, part]) => {
    const cells = Object.values(part.columns).map((expression) => `CAST(${expression} AS VARCHAR)`);
    const padding = Array.from({ length: width - cells.length }, () => "CAST(NULL AS VARCHAR)");
    const list = [literal(name), ...cells, ...padding].map((cell, index) => `${cell} AS c${index}`);
    return `SELECT ${list.join(", ")} ${part.from}`;
  });
  const readers = new Map(entries.map(([name, part]) => [name, Object.keys(part.columns)]));
  function read(result: ResultSet): Combined<P> {
    const rows: Record<string, Fields<string>[]> = Object.fromEntries(entries.map(([name]) => [name, []]));
    for (const [name, ...cells] of result.rows) {
      const columns = readers.get(name ?? "") ?? [];
      rows[name ?? ""]?.push(
        Object.fromEntries(columns.map((column, index) => [column, cells[index] ?? null])),
      );
    }
    return rows as Combined<P>;
  }
  return { statement: selects.join(" UNION ALL "), relations, read };
}

/** Number of a cell; null for NULL. */
export function numberOf(cell: Cell | undefined): number | null {
  return cell === null || cell === undefined || cell === "" ? null : Number(cell);
}

/** Epoch milliseconds of a TIMESTAMP's text, which is in UTC; null for NULL. */
export function momentOf(cell: Cell | undefined): number | null {
  if (cell === null || cell === undefined || cell === "") return null;
  const time = Date.parse(`${cell.trim().replace(" ", "T").slice(0, 23)}Z`);
  return Number.isNaN(time) ? null : time;
}
