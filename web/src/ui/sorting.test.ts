import { describe, expect, it } from "vitest";
import { nextSorting, readSorting, sorted } from "./sorting";

describe("sorting", () => {
  it("is read from the address", () => {
    expect(readSorting("lag")).toEqual({ id: "lag", isDescending: false });
    expect(readSorting("-lag")).toEqual({ id: "lag", isDescending: true });
    expect([readSorting(undefined), readSorting(""), readSorting("-")]).toEqual([null, null, null]);
  });

  it("turns by clicks, and ends", () => {
    expect([undefined, "-lag", "lag"].map((before) => nextSorting(before, "lag", true))).toEqual([
      "-lag",
      "lag",
      undefined,
    ]);
    expect(nextSorting("-lag", "name", false)).toBe("name");
  });

  it("puts NULL last in both directions, and compares numbers in texts", () => {
    const rows = ["q10", null, "q2"];
    expect(sorted(rows, (row) => row, false)).toEqual(["q2", "q10", null]);
    expect(sorted(rows, (row) => row, true)).toEqual(["q10", "q2", null]);
    expect(sorted([3, 1, 2], (row) => row, true)).toEqual([3, 2, 1]);
  });
});
