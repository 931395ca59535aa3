import { describe, expect, it } from "vitest";
import type { Row } from "../../api/wire";
import { choices, filtered, QUERIES } from "./overview";

const row = (id: string, sink: string, state: string, pool = "p", message: string | null = null): Row =>
  [
    id,
    null,
    `"db"."public"."${sink}"`,
    "changelog",
    state,
    "running",
    pool,
    "r",
    "2026-11-28 08:00:00.000000",
  ].concat([message, "0", "12.5", "100", "50", "7", null, "3", "1"] as string[]);

const queries = QUERIES.read({
  kind: "result",
  columns: [],
  rows: [
    row("1", "sales", "running"),
    row("2", "late", "errored", "big", "bad record in topic x"),
    row("3", "old", "terminated"),
  ],
  isTruncated: false,
  message: "",
  context: null,
});
const names = (filter: Parameters<typeof filtered>[1]) =>
  filtered(queries, filter).map((query) => query.name);

describe("the list of queries", () => {
  it("reads numbers, and shows no rate of a query that does not run", () => {
    expect(queries[0]).toMatchObject({
      name: "sales",
      rowsPerSecond: 12.5,
      lag: 7,
      watermarkLagMs: null,
      findings: 1,
    });
    expect(queries[1]?.rowsPerSecond).toBeNull();
  });

  it("leaves out ended queries unless they are asked for", () => {
    expect(names({})).toEqual(["sales", "late"]);
    expect(names({ ended: true })).toEqual(["sales", "late", "old"]);
    expect(names({ state: "terminated" })).toEqual(["old"]);
  });

  it("filters by words of name, id and message, by state, pool and owner", () => {
    expect(names({ text: "RECORD late" })).toEqual(["late"]);
    expect(names({ state: "running" })).toEqual(["sales"]);
    expect(names({ pool: "big", owner: "r" })).toEqual(["late"]);
    expect(names({ owner: "other" })).toEqual([]);
    expect(choices(queries, "pool")).toEqual(["big", "p"]);
  });
});
