import { describe, expect, it } from "vitest";
import { isAt, pageOfKey, pagesOf } from "./pages";

describe("pages", () => {
  const pages = pagesOf({ graphiql: true });

  it("have a key each, which no other page has", () => {
    expect(new Set(pages.map((page) => page.key)).size).toBe(pages.length);
    for (const page of pages) expect(pageOfKey(pages, page.key)).toBe(page.to);
    expect(pageOfKey(pages, "g")).toBeNull();
  });

  it("have no GraphQL, and no key for it, unless the server has switched it on", () => {
    for (const parts of [null, { graphiql: false }]) {
      expect(pagesOf(parts).length).toBe(pages.length - 1);
      expect(pageOfKey(pagesOf(parts), "h")).toBeNull();
    }
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
