import { describe, expect, it } from "vitest";
import type { Column } from "../api/wire";
import { barsOf, lineOf, numericPlaces, POINTS_MAX, timePlace } from "./chart-data";

const columns: readonly Column[] = [
  { name: "at", type: "TIMESTAMP(3)", nullable: false },
  { name: "page", type: "VARCHAR", nullable: true },
  { name: "seen", type: "BIGINT", nullable: true },
];
const rows = [
  ["2026-11-28 07:57:16.000", "/", "3"],
  ["2026-11-28 07:57:15.000", "/cart", "7"],
  ["2026-11-28 07:57:17.000", "/", null],
  ["2026-11-28 07:57:18.000", null, "9"],
  [null, "/pay", "1"],
];

describe("a line", () => {
  it("is in the order of its times, and has a gap for NULL", () => {
    const start = Date.UTC(2026, 10, 28, 7, 57, 15) / 1000;
    expect(lineOf(rows, columns, 0, 2)).toEqual({
      isTime: true,
      xs: [start, start + 1, start + 2, start + 3],
      ys: [7, 3, null, 9],
    });
  });

  it("is over the rows' numbers without a column, of the newest rows", () => {
    const many = Array.from({ length: POINTS_MAX + 5 }, (_, number) => [null, null, String(number)]);
    const line = lineOf(many, columns, null, 2);
    expect([line.isTime, line.xs.length, line.xs[0], line.ys[0]]).toEqual([false, POINTS_MAX, 6, 5]);
  });

  it("reads large whole numbers as milliseconds", () => {
    expect(
      lineOf([["1790000000000", null, "1"]], [{ ...columns[2], name: "at" } as Column], 0, 2),
    ).toMatchObject({
      isTime: true,
      xs: [1_790_000_000],
    });
  });
});

describe("bars", () => {
  it("have the newest value of each label, the largest first", () => {
    expect(barsOf([...rows, ["", "/cart", "2"]], 1, 2)).toEqual([
      { label: "NULL", value: 9 },
      { label: "/", value: 3 },
      { label: "/cart", value: 2 },
      { label: "/pay", value: 1 },
    ]);
  });
});

describe("the columns of a chart", () => {
  it("are those with numbers, and the first time", () => {
    expect([numericPlaces(columns), timePlace(columns), timePlace(columns.slice(1))]).toEqual([[2], 0, null]);
  });
});
