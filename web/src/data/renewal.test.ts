import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { collected, relationsOf, updated } from "./renewal";
import { allRows } from "./use-list";

describe("changes of the catalog", () => {
  it("renew the relation of their kind and those that derive from it", () => {
    expect([...relationsOf(["RELATIONS"])]).toEqual(
      expect.arrayContaining(["relations", "relation_columns", "lineage", "definitions"]),
    );
    expect(relationsOf(["DATABASES"]).has("queries")).toBe(false);
    expect([...relationsOf(["OF_A_NEWER_SERVER" as "STORES"])]).toEqual([]);
  });
});

describe("collecting", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("renews at once, and then what came meanwhile together", () => {
    const renewed: string[][] = [];
    const { add, stop } = collected<string>((items) => renewed.push([...items]), 1000);
    add(["a"]);
    add(["b"]);
    add(["c", "b"]);
    expect(renewed).toEqual([["a"]]);
    vi.advanceTimersByTime(1000);
    expect(renewed).toEqual([["a"], ["b", "c"]]);
    vi.advanceTimersByTime(5000);
    add(["d"]);
    expect(renewed).toHaveLength(3);
    add(["e"]);
    stop();
    vi.advanceTimersByTime(5000);
    expect(renewed).toHaveLength(3);
  });
});

describe("an update of rows", () => {
  it("replaces, adds and removes rows by their keys, NULL in a key too", () => {
    const row = (id: string, step: string | null, value = 0) => ({ id, step, value });
    const rows = updated(
      [row("a", null), row("a", "None"), row("b", "s")],
      { nodes: [row("a", null, 1), row("c", null, 2)], removed: [["b", "s"]] },
      ({ id, step }) => [id, step],
    );
    expect(rows).toEqual([row("a", null, 1), row("a", "None"), row("c", null, 2)]);
  });
});

describe("a list", () => {
  it("is read page by page to its end", async () => {
    const pages = new Map([
      [null, { nodes: [1, 2], pageInfo: { hasNextPage: true, endCursor: "c" } }],
      ["c", { nodes: [3], pageInfo: { hasNextPage: false, endCursor: "d" } }],
    ]);
    const rows = await allRows(async (after) => {
      const page = pages.get(after);
      if (page === undefined) throw new Error(`unexpected page ${after}`);
      return page;
    });
    expect(rows).toEqual([1, 2, 3]);
  });
});
