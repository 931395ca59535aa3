/** The grid's columns: initial widths from headers and the first rows. */

import { columnResizingFeature, columnSizingFeature, tableFeatures } from "@tanstack/react-table";
import type { Column, Row } from "../api/wire";
import type { RowSource } from "./rows";
import { kindOfType } from "./values";

export const gridFeatures = tableFeatures({ columnSizingFeature, columnResizingFeature });

const CHARACTER_PX = 7.3;
const PADDING_PX = 26;
const WIDTH_MIN_PX = 72;
const WIDTH_MAX_PX = 420;
/** A single column, such as EXPLAIN's, is text to read, so it may be wider. */
const LONE_WIDTH_MAX_PX = 1600;
const TYPE_CHARACTERS_MAX = 22;
const SAMPLE_ROWS = 60;

function startingWidth(
  column: Column,
  sample: readonly Row[],
  index: number,
  widthMax = WIDTH_MAX_PX,
): number {
  // The header holds the name and, beside it, the type; a long nested type may be cut.
  const header = column.name.length + Math.min(column.type.length, TYPE_CHARACTERS_MAX) + 3;
  const longest = sample.reduce((length, row) => Math.max(length, row[index]?.length ?? 4), header);
  return Math.round(Math.min(widthMax, Math.max(WIDTH_MIN_PX, longest * CHARACTER_PX + PADDING_PX)));
}

export function columnDefinitions(columns: readonly Column[], source: RowSource) {
  const sample: Row[] = [];
  for (let index = 0; index < Math.min(SAMPLE_ROWS, source.length); index++) {
    const row = source.at(index);
    if (row !== undefined) sample.push(row);
  }
  const widthMax = columns.length === 1 ? LONE_WIDTH_MAX_PX : WIDTH_MAX_PX;
  return columns.map((column, index) => ({
    id: String(index),
    header: column.name,
    accessorFn: (row: Row) => row[index] ?? null,
    size: startingWidth(column, sample, index, widthMax),
    minSize: WIDTH_MIN_PX,
    maxSize: 2000,
  }));
}

export function isRightAligned(column: Column): boolean {
  return kindOfType(column.type) === "number";
}
