/** The answers of LIST PARTITIONS and DESCRIBE ENTITY. */

import type { ResultSet } from "../../api/statements";

export interface Partition {
  readonly number: number;
  readonly start: string;
  /** Null for a part that grows, of a store that does not report its end. */
  readonly end: string | null;
  readonly records: number | null;
  /** Further facts that the store reports, as texts. */
  readonly details: Readonly<Record<string, string>>;
}

const shown = (value: unknown): string =>
  Array.isArray(value) ? value.map(shown).join(", ") : value == null ? "" : String(value);

function entries(text: string | null | undefined): readonly (readonly [string, string])[] {
  const fields = JSON.parse(text ?? "{}") as Readonly<Record<string, unknown>>;
  return Object.entries(fields).map(([name, value]) => [
    name,
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? JSON.stringify(value)
      : shown(value),
  ]);
}

export function readPartitions(result: ResultSet): readonly Partition[] {
  return result.rows.map(([number, start, end, records, details]) => ({
    number: Number(number),
    start: start ?? "",
    end: end ?? null,
    records: records == null ? null : Number(records),
    details: Object.fromEntries(entries(details)),
  }));
}

/** Name and value of each setting: the columns before the descriptors, but for the names, and what the last column contains. */
export function readSettings({ columns, rows }: ResultSet): readonly (readonly [string, string])[] {
  const [row = []] = rows;
  const layout = columns
    .map(({ name }, index) => [name.toLowerCase(), row[index] ?? ""] as const)
    .filter(([name, value]) => !NAMES.includes(name) && value !== "");
  return [...layout, ...entries(row.at(-1))];
}

const NAMES: readonly string[] = ["name", "store", "keydescriptor", "valuedescriptor", "configs"];
