/** INSERT INTO … VALUES of one row, from the fields of a form, and the field of its error. */

import type { SqlFailure } from "../api/failures";
import { quoteIdentifier } from "../sql/identifiers";
import { literal } from "./select";

export interface TargetColumn {
  readonly name: string;
  readonly type: string;
  readonly isNullable: boolean;
  readonly isKey: boolean;
}

/** Content that a field writes: its text as a constant of the column's type, its text as SQL, NULL, or nothing, so that the column has its default. */
export type Mode = "value" | "sql" | "null" | "default";

export interface Field {
  readonly mode: Mode;
  readonly text: string;
}

/** Kinds of input. `sql` has no constant that a form could build, such as a type of several values. */
export type Input =
  | "text"
  | "integer"
  | "number"
  | "boolean"
  | "date"
  | "timestamp"
  | "instant"
  | "bytes"
  | "sql";

const INPUTS: Readonly<Record<string, Input>> = {
  VARCHAR: "text",
  TINYINT: "integer",
  SMALLINT: "integer",
  INTEGER: "integer",
  BIGINT: "integer",
  FLOAT: "number",
  DOUBLE: "number",
  DECIMAL: "number",
  BOOLEAN: "boolean",
  DATE: "date",
  TIMESTAMP: "timestamp",
  TIMESTAMP_LTZ: "instant",
  BYTES: "bytes",
};

export function inputOf(type: string): Input {
  return INPUTS[/^\w+/.exec(type)?.[0] ?? ""] ?? "sql";
}

/** Modes of a column. Only a table has defaults: in a stream or a changelog, a column that is not listed is NULL. */
export function modesOf(column: TargetColumn, isTable: boolean): readonly Mode[] {
  return [
    ...(inputOf(column.type) === "sql" ? [] : (["value"] as const)),
    "sql",
    ...(column.isNullable ? (["null"] as const) : []),
    ...(isTable && !column.isKey ? (["default"] as const) : []),
  ];
}

/** Mode of a column that the user has not touched. */
export function firstMode(column: TargetColumn, isTable: boolean): Mode {
  const modes = modesOf(column, isTable);
  if (column.isNullable && !column.isKey) return modes.includes("default") ? "default" : "null";
  return modes[0] ?? "sql";
}

const NUMBERS = { integer: /^[+-]?\d+$/, number: /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/ };

/** Fault of a field, before the server sees it; null if there is none. An empty field is incomplete, but no fault. */
export function problemOf(column: TargetColumn, { mode, text }: Field): string | null {
  const input = inputOf(column.type);
  if (mode !== "value" || text.trim() === "") return null;
  if (input === "integer" && !NUMBERS.integer.test(text.trim())) return "Write a whole number, such as 42.";
  if (input === "number" && !NUMBERS.number.test(text.trim())) return "Write a number, such as 42 or 1.5.";
  if (input === "bytes" && !/^(?:[0-9a-fA-F]{2})+$/.test(text.trim()))
    return "Write bytes in base 16, such as 00ff.";
  return null;
}

/** SQL of a field; null while it is incomplete or wrong. */
function sqlOf(column: TargetColumn, field: Field): string | null {
  const { mode } = field;
  const text = field.text.trim();
  if (mode === "null") return "NULL";
  if (mode === "sql") return text === "" ? null : text;
  const input = inputOf(column.type);
  if (input === "text") return literal(field.text);
  if (text === "" || problemOf(column, field) !== null) return null;
  switch (input) {
    case "boolean":
      return text.toUpperCase();
    case "date":
      return `DATE ${literal(text)}`;
    case "timestamp":
      return `TIMESTAMP ${literal(momentText(text))}`;
    case "instant": {
      const moment = Date.parse(text);
      return Number.isNaN(moment) ? null : `TO_TIMESTAMP_LTZ(${moment}, 3)`;
    }
    case "bytes":
      return `UNHEX(${literal(text)})`;
    default:
      return text;
  }
}

/** Text of a local moment of an input, `2026-01-31T10:00`, as a TIMESTAMP is written. */
function momentText(text: string): string {
  const [day = "", time = ""] = text.split("T");
  return `${day} ${/^\d+:\d+$/.test(time) ? `${time}:00` : time}`;
}

export interface RowDraft {
  /** Name of the relation, quoted. */
  readonly path: string;
  readonly columns: readonly TargetColumn[];
  /** A field for each column. */
  readonly fields: readonly Field[];
}

/** The statement, with each column and each value on lines of its own, so that the line of an error names one; null while it is incomplete. */
export function insertStatement(draft: RowDraft): string | null {
  const given = listed(draft);
  if (given.length === 0 || given.some(({ value }) => value === null)) return null;
  const names = given.map(({ column }) => `  ${quoteIdentifier(column.name)}`);
  const values = given.map(({ value }) => `  ${value}`);
  return `INSERT INTO ${draft.path} (\n${names.join(",\n")}\n) VALUES (\n${values.join(",\n")}\n);`;
}

function listed({
  columns,
  fields,
}: RowDraft): readonly { readonly column: TargetColumn; readonly value: string | null }[] {
  return columns.flatMap((column, index) => {
    const field = fields[index];
    return field === undefined || field.mode === "default" ? [] : [{ column, value: sqlOf(column, field) }];
  });
}

/** Columns as errors of the server and of a store name them. */
const NAMED = /\bcolumn\s+(?:"((?:[^"]|"")+)"|'([^']+)'|([\w$]+))/i;

/** Name of the column that a statement failed for, by the error's line or by its words; null if it is none. */
export function failedColumn(draft: RowDraft, failure: SqlFailure): string | null {
  const given = listed(draft);
  if (failure.position !== null) {
    // The first line is the relation's, and one line is between columns and values.
    let line = 1;
    for (const { column } of given) if (++line === failure.position.line) return column.name;
    line += 1;
    for (const { column, value } of given) {
      line += (value ?? "").split("\n").length;
      if (failure.position.line > given.length + 2 && failure.position.line <= line) return column.name;
    }
    // An expression without its end is noticed at the bracket behind the last one.
    if (failure.position.line === line + 1) return given.at(-1)?.column.name ?? null;
  }
  const [, quoted, single, bare] = NAMED.exec(failure.message) ?? [];
  const name = quoted?.replaceAll('""', '"') ?? single ?? bare;
  return draft.columns.find((column) => column.name === name)?.name ?? null;
}

/** INSERT INTO with a place for the value of each column. */
export function insertTemplate(path: string, columns: readonly TargetColumn[]): string {
  const names = columns.map((column) => quoteIdentifier(column.name)).join(", ");
  const values = columns.map((column) => `NULL /* ${column.type.replaceAll("*/", "")} */`).join(", ");
  return `INSERT INTO ${path} (${names})\nVALUES (${values});`;
}
