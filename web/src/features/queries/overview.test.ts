import { describe, expect, it } from "vitest";
import type { QueryRow } from "../../catalog/lists";
import { choices, filtered, summaries } from "./overview";

const row = (
  id: string,
  sink: string,
  currentState: string,
  computePoolName = "p",
  message: string | null = null,
): QueryRow => ({
  ...{ id, name: null, sinkFqn: `"db"."public"."${sink}"`, kind: "changelog", currentState },
  ...{ intendedState: "running", computePoolName, owner: "r", createdAt: `2026-11-28T08:00:0${id}+00:00` },
  ...{ message, restarts: 0, query: "SELECT 1" },
});
const figures = (queryId: string) => ({
  ...{ queryId, inputRowsPerSecond: 12.5, inputRowsTotal: "100", outputRowsTotal: "50", lagRecords: "7" },
  ...{ watermarkLagMs: null, stateRows: "3" },
});

const queries = summaries(
  [
    row("2", "late", "errored", "big", "bad record in topic x"),
    row("1", "sales", "running"),
    row("3", "old", "terminated"),
  ],
  [figures("1"), figures("2")],
  [{ queryId: "1", code: "NO_INPUT", step: null }],
);
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
