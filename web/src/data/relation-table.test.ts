import { describe, expect, it } from "vitest";
import { withWords } from "./relation-table";

describe("withWords", () => {
  it("keeps the rows that contain all words, in any columns", () => {
    const rows = [
      { name: "analyst", owner: "useradmin" },
      { name: "Sales", owner: null },
    ];
    expect(withWords(rows, "ADMIN anal")).toEqual([rows[0]]);
    expect(withWords(rows, " sales")).toEqual([rows[1]]);
    expect(withWords(rows, "")).toBe(rows);
    expect(withWords(rows, "null")).toEqual([]);
  });
});
