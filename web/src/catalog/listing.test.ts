import { describe, expect, it } from "vitest";
import type { ResultSet } from "../api/statements";
import { readEntities, readRelations, readStores } from "./listing";

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
});
