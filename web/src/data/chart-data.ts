/** Points of a chart over the rows of a result. */

import type { Column, Row } from "../api/wire";
import { kindOfType } from "../grid/values";
import { momentOf } from "./select";

/** Charts are drawn anew as rows come: more points than these are slow, and no screen has room for them. */
export const POINTS_MAX = 2000;
const BARS_MAX = 30;
/** Whole numbers above this are milliseconds since the epoch: as a number of anything else they would be rare. */
const EPOCH_MS_MIN = 100_000_000_000;

export interface Line {
  /** True if `xs` are seconds since the epoch. */
  readonly isTime: boolean;
  /** Ascending. */
  readonly xs: readonly number[];
  readonly ys: readonly (number | null)[];
}

export interface Bar {
  readonly label: string;
  readonly value: number;
}

/** Places of the columns whose values are numbers. */
export function numericPlaces(columns: readonly Column[]): readonly number[] {
  return columns.flatMap(({ type }, place) => (kindOfType(type) === "number" ? [place] : []));
}

/** The first time of the columns, which is what a line is usually drawn over; null if there is none. */
export function timePlace(columns: readonly Column[]): number | null {
  const place = columns.findIndex(({ type }) => kindOfType(type) === "time");
  return place < 0 ? null : place;
}

/** The newest rows as a line over column `x`, or over their number in the result. */
export function lineOf(rows: readonly Row[], columns: readonly Column[], x: number | null, y: number): Line {
  const newest = rows.slice(-POINTS_MAX);
  const type = x === null ? "" : (columns[x]?.type ?? "");
  const place = (row: Row, index: number) =>
    x === null ? rows.length - newest.length + index + 1 : placeOf(row[x] ?? null, type);
  const points = newest
    .map((row, index) => ({ x: place(row, index), y: numberIn(row[y] ?? null) }))
    .filter((point): point is { x: number; y: number | null } => point.x !== null)
    .sort((one, other) => one.x - other.x);
  const isTime =
    kindOfType(type) === "time" || (x !== null && points.every((point) => point.x >= EPOCH_MS_MIN));
  const unit = isTime ? 1000 : 1;
  return { isTime, xs: points.map((point) => point.x / unit), ys: points.map((point) => point.y) };
}

/** The newest value of each label, the largest first. */
export function barsOf(rows: readonly Row[], x: number, y: number): readonly Bar[] {
  const values = new Map<string, number>();
  for (const row of rows) {
    const value = numberIn(row[y] ?? null);
    if (value !== null) values.set(row[x] ?? "NULL", value);
  }
  const bars = [...values].map(([label, value]) => ({ label, value }));
  return bars.sort((one, other) => other.value - one.value).slice(0, BARS_MAX);
}

function placeOf(cell: string | null, type: string): number | null {
  return kindOfType(type) === "time" ? momentOf(cell) : numberIn(cell);
}

function numberIn(cell: string | null): number | null {
  if (cell === null || cell === "") return null;
  const value = Number(cell);
  return Number.isFinite(value) ? value : null;
}
