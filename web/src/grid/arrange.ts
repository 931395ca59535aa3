/** Arrangement of the rows that are shown: a text to look for, an order, hidden columns. Nothing is asked of the server. */

import type { Cell, Column, Row } from "../api/wire";
import { fixedRows, type RowSource } from "./rows";
import { kindOfType } from "./values";

export interface Order {
  /** Place of the column in the result, hidden columns included. */
  readonly column: number;
  readonly isDescending: boolean;
}

export interface Arrangement {
  readonly text: string;
  readonly order: Order | null;
  readonly hidden: ReadonlySet<number>;
}

export const AS_IT_CAME: Arrangement = { text: "", order: null, hidden: new Set() };

/** True if rows are selected or moved, which needs a pass over all of them. */
export function movesRows({ text, order }: Arrangement): boolean {
  return text.trim() !== "" || order !== null;
}

/** The order after a click on a column: ascending, descending, none. */
export function nextOrder(order: Order | null, column: number): Order | null {
  if (order?.column !== column) return { column, isDescending: false };
  return order.isDescending ? null : { column, isDescending: true };
}

/** The rows that contain all words of the text in any column, in the order of a column; NULL last. */
export function movedRows(
  rows: readonly Row[],
  columns: readonly Column[],
  { text, order }: Arrangement,
): readonly Row[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = rows.filter((row) => {
    const all = row.join("\n").toLowerCase();
    return words.every((word) => all.includes(word));
  });
  const column = order === null ? undefined : columns[order.column];
  if (order === null || column === undefined) return kept;
  const compare = kindOfType(column.type) === "number" ? byNumber : byText;
  const sign = order.isDescending ? -1 : 1;
  return kept.sort((one, other) => {
    const [a, b] = [one[order.column] ?? null, other[order.column] ?? null];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return sign * compare(a, b);
  });
}

/** Whole numbers may be larger than JavaScript's are exact. */
function byNumber(one: string, other: string): number {
  return Number(one) - Number(other) || (/^-?\d+$/.test(one + other) ? compareWhole(one, other) : 0);
}

function compareWhole(one: string, other: string): number {
  const difference = BigInt(one) - BigInt(other);
  return difference === 0n ? 0 : difference < 0n ? -1 : 1;
}

function byText(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** Places of the columns that are not hidden. */
export function shownPlaces(columns: readonly Column[], { hidden }: Arrangement): readonly number[] {
  return columns.map((_, place) => place).filter((place) => !hidden.has(place));
}

/** The same rows with the cells at some places only. */
export function withCells(source: RowSource, places: readonly number[]): RowSource {
  const pick = (row: Row) => places.map((place): Cell => row[place] ?? null);
  return {
    length: source.length,
    dropped: source.dropped,
    at: (index) => {
      const row = source.at(index);
      return row === undefined ? undefined : pick(row);
    },
    toArray: () => source.toArray().map(pick),
  };
}

export function rearranged(
  source: RowSource,
  columns: readonly Column[],
  arrangement: Arrangement,
): RowSource {
  return movesRows(arrangement) ? fixedRows(movedRows(source.toArray(), columns, arrangement)) : source;
}
