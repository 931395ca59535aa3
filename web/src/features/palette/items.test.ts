import { describe, expect, it } from "vitest";
import type { RelationRow } from "../../catalog/lists";
import { COMMANDS, matching, objectItems, pageItems, SHOWN_MAX, withRecent } from "./items";

const relation = (name: string, relationType: string): RelationRow => ({
  ...{ databaseName: "shop", schemaName: "public", name, fqn: name, relationType, owner: "r" },
  ...{ storeName: null, entity: null, description: null },
});
const OBJECT_ITEMS = objectItems({
  databases: [{ name: "shop" }],
  schemas: [{ databaseName: "shop", name: "public" }],
  relations: [
    relation("late_orders", "materialized_view"),
    relation("orders", "stream"),
    relation("preorders", "stream"),
  ],
  stores: [
    {
      ...{ name: "orders_kafka", storeType: "Kafka", status: "ready", statusMessage: null, owner: "r" },
      ...{ lastTestedAt: null, lastTestMs: null },
      ...{ schemaRegistryName: null, relations: { totalCount: 1 } },
    },
  ],
  queries: [
    {
      ...{ id: "q-1", name: null, sinkFqn: '"shop"."public"."late_orders"', kind: "materialized_view" },
      ...{ currentState: "running", intendedState: "running", computePoolName: "default_pool", owner: "r" },
      ...{ createdAt: "2026-11-28T08:00:00+00:00", message: null, restarts: 0, query: "" },
    },
  ],
  pools: [{ name: "default_pool" }],
  functions: [{ name: "ORD", kind: "scalar" }],
});
const titles = (text: string, recent: readonly string[] = []) =>
  matching(OBJECT_ITEMS, text, recent).map((item) => `${item.kind} ${item.title}`);

describe("the palette", () => {
  it("has an item for each object, which leads to its page", () => {
    const target = (title: string) => OBJECT_ITEMS.find((item) => item.title === title)?.target;
    expect(OBJECT_ITEMS).toHaveLength(9);
    expect(target("orders")).toEqual({ kind: "relation", path: ["shop", "public", "orders"] });
    expect(target("shop")).toEqual({ kind: "catalog", text: "shop." });
    expect(target("default_pool")).toEqual({ kind: "resources", tab: "pools", text: "default_pool" });
    expect(OBJECT_ITEMS.find((item) => item.kind === "query")).toMatchObject({
      title: "late_orders",
      target: { kind: "query", id: "q-1" },
    });
  });

  it("puts the best match first", () => {
    expect(titles("orders")).toEqual([
      "stream orders",
      "store orders_kafka",
      "materialized view late_orders",
      "query late_orders",
      "stream preorders",
    ]);
    expect(titles("view LATE")).toEqual(["materialized view late_orders"]);
    expect(titles("nothing")).toEqual([]);
  });

  it("puts recent items first among those that match as well", () => {
    const [, query] = OBJECT_ITEMS.filter((item) => item.title === "late_orders");
    const recent = withRecent(withRecent([], query?.id ?? ""), "gone");
    expect(titles("", recent)[0]).toBe("query late_orders");
    expect(titles("late", recent)).toEqual(["query late_orders", "materialized view late_orders"]);
    expect(titles("orders", recent)[0]).toBe("stream orders");
  });

  it("shows a limited number of items, and remembers a few", () => {
    const many = pageItems(
      Array.from({ length: 200 }, (_, index) => ({ to: `/${index}`, name: `p${index}`, icon: "sql" })),
    );
    expect(matching(many, "p", [])).toHaveLength(SHOWN_MAX);
    expect(["a", "b", "a"].reduce(withRecent, [] as readonly string[])).toEqual(["a", "b"]);
    expect(many.map((item) => item.id).reduce(withRecent, [] as readonly string[])).toHaveLength(8);
  });

  it("finds commands by other words too", () => {
    expect(matching(COMMANDS, "switch role", []).map((item) => item.title)).toEqual(["Use another role"]);
    expect(matching(COMMANDS, "theme dark", []).map((item) => item.title)).toEqual(["Colours: dark"]);
  });
});
