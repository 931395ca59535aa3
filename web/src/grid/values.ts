/** Display of a cell. The text itself is never changed: only marked as missing, empty, cut or
 * nested.
 */

import type { Cell } from "../api/wire";

const SHOWN_CHARACTERS_MAX = 400;

export type TypeKind = "number" | "text" | "boolean" | "time" | "binary" | "nested";

export type ShownCell =
  | { readonly kind: "null" }
  | { readonly kind: "empty" }
  | { readonly kind: "value"; readonly text: string; readonly isCut: boolean };

const KINDS: readonly (readonly [RegExp, TypeKind])[] = [
  [/^(TINYINT|SMALLINT|INT|INTEGER|BIGINT|FLOAT|DOUBLE|DECIMAL|NUMERIC)\b/, "number"],
  [/^BOOLEAN\b/, "boolean"],
  [/^(DATE|TIME|TIMESTAMP|TIMESTAMP_LTZ)\b/, "time"],
  [/^(VARBINARY|BINARY|BYTES)\b/, "binary"],
  [/^(ARRAY|MAP|STRUCT|MULTISET|ROW)\b/, "nested"],
];

export function kindOfType(type: string): TypeKind {
  const name = type.trim().toUpperCase();
  return KINDS.find(([pattern]) => pattern.test(name))?.[1] ?? "text";
}

/** Text in one line, with white space that would break the line made visible. */
export function shownCell(cell: Cell | undefined): ShownCell {
  if (cell === null || cell === undefined) return { kind: "null" };
  if (cell === "") return { kind: "empty" };
  const isCut = cell.length > SHOWN_CHARACTERS_MAX;
  const text = (isCut ? `${cell.slice(0, SHOWN_CHARACTERS_MAX)}…` : cell)
    .replaceAll("\r\n", "↵")
    .replaceAll("\n", "↵")
    .replaceAll("\t", "⇥");
  return { kind: "value", text, isCut };
}

/** The whole value for the cell viewer: JSON is indented, everything else is as it came. */
export function wholeValue(cell: string): string {
  const start = cell.trimStart().charAt(0);
  if (start !== "{" && start !== "[") return cell;
  try {
    return hasUnsafeNumber(cell) ? cell : JSON.stringify(JSON.parse(cell), null, 2);
  } catch {
    return cell;
  }
}

/** JavaScript would round such numbers, and a viewer must not change what it shows. */
function hasUnsafeNumber(json: string): boolean {
  const outsideStrings = json.replace(/"(?:[^"\\]|\\.)*"/g, '""');
  return /\d{16,}|\d\.\d{15,}|\de[+-]?\d/i.test(outsideStrings);
}

export function countText(count: number, singular: string): string {
  return `${count.toLocaleString("en-US")} ${singular}${count === 1 ? "" : "s"}`;
}

export function durationText(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  const rest = String(Math.floor(seconds % 60)).padStart(2, "0");
  if (minutes < 60) return `${minutes}:${rest} min`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest} h`;
}
