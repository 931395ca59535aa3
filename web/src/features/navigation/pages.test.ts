import { describe, expect, it } from "vitest";
import { isAt, PAGES, pageOfKey } from "./pages";

describe("pages", () => {
  it("have a key each, which no other page has", () => {
    expect(new Set(PAGES.map((page) => page.key)).size).toBe(PAGES.length);
    for (const page of PAGES) expect(pageOfKey(page.key)).toBe(page.to);
    expect(pageOfKey("g")).toBeNull();
  });

  it("contain the addresses below them, and no others", () => {
    expect(["/", "/sql", "/queries"].map((path) => isAt("/", path))).toEqual([true, true, false]);
    expect(["/queries", "/queries/1", "/queries2"].map((path) => isAt("/queries", path))).toEqual([
      true,
      true,
      false,
    ]);
  });
});
