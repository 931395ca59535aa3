import { describe, expect, it } from "vitest";
import type { Column, Row } from "../api/wire";
import { AS_IT_CAME, movedRows, nextOrder, rearranged, shownPlaces, withCells } from "./arrange";
import { fixedRows } from "./rows";

const columns: readonly Column[] = [
  { name: "id", type: "BIGINT", nullable: true },
  { name: "page", type: "VARCHAR", nullable: true },
];
const rows: readonly Row[] = [
  ["10", "/cart"],
  ["9", "/"],
  [null, "/Pay"],
  ["9007199254740993", "/pay"],
  ["9007199254740992", "/pay"],
];
const order = (column: number, isDescending = false) => ({ ...AS_IT_CAME, order: { column, isDescending } });
const ids = (moved: readonly Row[]) => moved.map(([id]) => id);

describe("movedRows", () => {
  it("orders numbers as numbers, also those that JavaScript would round, with NULL last", () => {
    expect(ids(movedRows(rows, columns, order(0)))).toEqual([
      "9",
      "10",
      "9007199254740992",
      "9007199254740993",
      null,
    ]);
    expect(ids(movedRows(rows, columns, order(0, true)))).toEqual([
      "9007199254740993",
      "9007199254740992",
      "10",
      "9",
      null,
    ]);
  });

  it("orders texts by their characters and leaves the rows of the result alone", () => {
    expect(movedRows(rows, columns, order(1)).map(([, page]) => page)).toEqual([
      "/",
      "/Pay",
      "/cart",
      "/pay",
      "/pay",
    ]);
    expect(ids(rows)[0]).toBe("10");
  });

  it("keeps the rows that contain all words, in any columns", () => {
    expect(ids(movedRows(rows, columns, { ...AS_IT_CAME, text: "PAY 9007 2" }))).toEqual([
      "9007199254740993",
      "9007199254740992",
    ]);
  });
});

describe("an arrangement", () => {
  it("changes from ascending to descending to none by clicks", () => {
    const first = nextOrder(null, 1);
    const second = nextOrder(first, 1);
    expect([first, second, nextOrder(second, 1)]).toEqual([
      { column: 1, isDescending: false },
      { column: 1, isDescending: true },
      null,
    ]);
    expect(nextOrder(second, 0)).toEqual({ column: 0, isDescending: false });
  });

  it("hides columns, and is the source itself while nothing is arranged", () => {
    const source = fixedRows(rows);
    expect(rearranged(source, columns, AS_IT_CAME)).toBe(source);
    const places = shownPlaces(columns, { ...AS_IT_CAME, hidden: new Set([0]) });
    const shown = withCells(source, places);
    expect([places, shown.at(0), shown.at(9), shown.toArray().length]).toEqual([
      [1],
      ["/cart"],
      undefined,
      5,
    ]);
  });
});
