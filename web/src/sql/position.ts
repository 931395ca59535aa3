/** Conversion of the server's line and column inside a statement to offsets in the editor's text. */

import type { TextPosition } from "../api/failures";

export interface Span {
  readonly from: number;
  readonly to: number;
}

const NAME = /^[\p{L}\p{N}_$]+/u;
const QUOTED = /^(?:"[^"\n]*"|'[^'\n]*'|`[^`\n]*`)/;

/** Convert the server's range of code points to offsets in JavaScript's units: at least one
 * character, to be visible.
 */
export function spanOf(text: string, start: number, end: number): Span {
  const to = unitsOf(text, end);
  const from = Math.min(unitsOf(text, start), to);
  if (from < to) return { from, to };
  return { from: Math.max(0, to - 1), to: Math.max(1, to) };
}

const SURROGATES = /[\uD800-\uDFFF]/;

/** Convert an offset in code points to one in JavaScript's units, at most the end of the text. */
export function unitsOf(text: string, codePoints: number): number {
  if (!SURROGATES.test(text)) return Math.min(codePoints, text.length);
  return [...text].slice(0, codePoints).join("").length;
}

/** Convert an offset in JavaScript's units to one in code points. */
export function codePointsOf(text: string, units: number): number {
  return SURROGATES.test(text) ? [...text.slice(0, units)].length : units;
}

/** The token at a position, as offsets into `statement`; the whole line's end when the position is beyond it. */
export function spanAt(statement: string, position: TextPosition): Span {
  const lines = statement.split("\n");
  const line = lines[Math.min(position.line, lines.length) - 1] ?? "";
  const lineStart = lines.slice(0, Math.min(position.line, lines.length) - 1).join("\n").length;
  const start = lineStart + (position.line > 1 && lines.length > 1 ? 1 : 0);
  const before = [...line].slice(0, position.column - 1).join("").length;
  const rest = line.slice(before);
  const length = (QUOTED.exec(rest) ?? NAME.exec(rest))?.[0].length ?? Math.min(rest.length, 1);
  if (length > 0) return { from: start + before, to: start + before + length };
  // At the end of the text: mark its last character, so that something is visible.
  const end = Math.max(statement.trimEnd().length, 1);
  const last = rest === "" && line.length > 0 ? start + line.length : end;
  return { from: Math.max(0, last - 1), to: Math.max(1, last) };
}
