import { describe, expect, it } from "vitest";
import type { ResultSet } from "../api/statements";
import { isStopping, readEntities, readPools, readQueries, readRelations, readStores } from "./listing";

const answer = (names: readonly string[], ...rows: readonly (string | null)[][]): ResultSet => ({
  kind: "result",
  columns: names.map((name) => ({ name, type: "VARCHAR", nullable: true })),
  rows,
  isTruncated: false,
  message: "",
  context: null,
});

describe("listings", () => {
  it("find their columns by name, in any order and writing", () => {
    expect(readStores(answer(["type", "STATE", "Name"], ["Kafka", "READY", "k"]))).toEqual([
      { name: "k", type: "Kafka", state: "ready" },
    ]);
    expect(readQueries(answer(["id", "actual_state"], ["q1", "Running"]))).toMatchObject([
      { id: "q1", name: "q1", state: "running" },
    ]);
  });

  it("distinguish a stopped pool from an idle one", () => {
    const pools = readPools(
      answer(
        ["Name", "Size", "IntendedState", "ActualState", "ErrorMessages", "Timeout"],
        ["busy", "LARGE", "running", "running", null, "0"],
        ["idle", "small", "running", "stopped", null, "5"],
        ["off", "medium", "stopped", "stopped", "it was killed", "0"],
      ),
    );
    expect(pools.map(isStopping)).toEqual([false, false, true]);
    expect(pools[0]).toMatchObject({ name: "busy", size: "large", state: "running", message: "" });
    expect(pools[2]?.message).toBe("it was killed");
  });

  it("know a query without a name by the relation that it writes", () => {
    const queries = readQueries(
      answer(
        ["ID", "Name", "Sink"],
        ["q1", null, '"shop"."public"."per_minute"'],
        ["q2", null, '"shop"."public"."My Sink"'],
        ["q3", "named", '"shop"."public"."a"'],
        ["q4", null, ""],
      ),
    );
    expect(queries.map((query) => query.name)).toEqual(["per_minute", "My Sink", "named", "q4"]);
  });

  it("take the first column for a missing name", () => {
    expect(readRelations(answer(["relation", "Type"], ["pageviews", "MATERIALIZED_VIEW"]))).toMatchObject([
      { path: ["pageviews"], type: "materialized view" },
    ]);
  });

  it("put the database and schema of a relation before its name", () => {
    const columns = ["Name", "Type", "Database", "Schema"];
    expect(readRelations(answer(columns, ["pageviews", "stream", "web", "public"]))[0]?.path).toEqual([
      "web",
      "public",
      "pageviews",
    ]);
    expect(
      readRelations(answer(columns, ['"web"."public"."s"', "stream", "web", "public"]))[0]?.path,
    ).toEqual(["web", "public", "s"]);
  });

  it("read quoted names, and put entities below their parent", () => {
    expect(
      readEntities(answer(["Name", "IsLeaf"], ['"Orders.v2"', "true"], ["inner", "false"]), ["db"]),
    ).toEqual([
      { path: ["db", "Orders.v2"], isLeaf: true },
      { path: ["db", "inner"], isLeaf: false },
    ]);
  });

  it("put ended queries last", () => {
    const queries = readQueries(
      answer(["ID", "ActualState"], ["a", "terminated"], ["b", "errored"], ["c", "running"]),
    );
    expect(queries.map((query) => query.id)).toEqual(["b", "c", "a"]);
  });
});
