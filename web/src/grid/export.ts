/** Rows as files. CSV is safe to open in a spreadsheet; JSON keeps every value as the server wrote it. */

import type { Cell, Column, Row } from "../api/wire";
import { kindOfType } from "./values";

const FORMULA_START = /^[=+\-@\t\r\n]/;
const PLAIN_NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
const NEEDS_QUOTES = /[",\r\n]|^\s|\s$/;

/**
 * NULL is an empty field and the empty string is "". Text that a spreadsheet would run as a formula gets an apostrophe
 * in front; a negative number in a numeric column is a number, not a formula.
 */
export function csvField(cell: Cell | undefined, type: string): string {
  if (cell === null || cell === undefined) return "";
  if (cell === "") return '""';
  const isNumber = kindOfType(type) === "number" && PLAIN_NUMBER.test(cell);
  const isGuarded = !isNumber && FORMULA_START.test(cell);
  const text = isGuarded ? `'${cell}` : cell;
  return isGuarded || NEEDS_QUOTES.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function toCsv(columns: readonly Column[], rows: readonly Row[]): string {
  const header = columns.map((column) => csvField(column.name, "VARCHAR"));
  const lines = rows.map((row) => columns.map((column, index) => csvField(row[index], column.type)));
  return [header, ...lines].map((fields) => `${fields.join(",")}\r\n`).join("");
}

/** An array of objects with the values as text or null: numbers stay text, since JavaScript would round large ones. */
export function toJson(columns: readonly Column[], rows: readonly Row[]): string {
  const names = uniqueNames(columns.map((column) => column.name));
  const lines = rows.map((row) => {
    const fields = names.map(
      (name, index) => `${JSON.stringify(name)}: ${JSON.stringify(row[index] ?? null)}`,
    );
    return `  {${fields.join(", ")}}`;
  });
  return lines.length === 0 ? "[]\n" : `[\n${lines.join(",\n")}\n]\n`;
}

/** Lines with an object each, as in JSON. */
export function toNdjson(columns: readonly Column[], rows: readonly Row[]): string {
  const names = uniqueNames(columns.map((column) => column.name));
  return rows
    .map((row) => {
      const fields = names.map((name, index) => [name, row[index] ?? null] as const);
      return `${JSON.stringify(Object.fromEntries(fields))}\n`;
    })
    .join("");
}

/** Two columns of one name would overwrite each other: the second becomes name_2. */
export function uniqueNames(names: readonly string[]): readonly string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    let unique = name;
    for (let copy = 2; taken.has(unique); copy++) unique = `${name}_${copy}`;
    taken.add(unique);
    return unique;
  });
}

export function download(fileName: string, mediaType: string, content: string): void {
  const address = URL.createObjectURL(new Blob([content], { type: `${mediaType};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = address;
  link.download = fileName;
  link.click();
  // The browser reads the blob after the click has been handled.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
