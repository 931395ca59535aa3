import { describe, expect, it } from "vitest";
import type { ResultSet } from "../api/statements";
import { readEntities, readNames, readProperties } from "./listing";

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
    expect(readProperties(answer(["VALUE", "Property"], ["Kafka", "Type"]))).toEqual([
      { name: "Type", value: "Kafka" },
    ]);
  });

  it("take the first column for a missing name", () => {
    expect(readNames(answer(["database", "Owner"], ['"Shop"', "r"]))).toEqual(["Shop"]);
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
