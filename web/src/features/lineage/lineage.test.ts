import { describe, expect, it } from "vitest";
import { dropStatement, focused, graphOf, impactOf, type LineageFacts, matching } from "./lineage";

const SALES = '"shop"."public"."Sales"';
const facts: LineageFacts = {
  edges: [
    { sourceKind: "entity", source: "k.orders", targetKind: "relation", target: '"shop"."public"."orders"' },
    { sourceKind: "relation", source: '"shop"."public"."orders"', targetKind: "query", target: "q1" },
    { sourceKind: "query", source: "q1", targetKind: "relation", target: SALES },
    { sourceKind: "relation", source: SALES, targetKind: "entity", target: "k.sales" },
    { sourceKind: "entity", source: "k.apart", targetKind: "relation", target: '"shop"."public"."apart"' },
  ],
  queries: [
    {
      ...{ id: "q1", name: null, sinkFqn: SALES, kind: "changelog", currentState: "running" },
      ...{
        intendedState: "running",
        computePoolName: "p",
        owner: "r",
        createdAt: "2026-11-28T08:00:00+00:00",
      },
      ...{ message: null, restarts: 0, query: "" },
    },
  ],
  relations: [
    {
      ...{ databaseName: "shop", schemaName: "public", name: "Sales", fqn: SALES, owner: "r" },
      ...{ relationType: "materialized_view", storeName: null, entity: null, description: null },
    },
  ],
  metrics: [],
  findings: [{ queryId: "q1", code: "NO_INPUT", step: null }],
};
const graph = graphOf(facts);
const titles = (nodes: readonly { readonly title: string }[]) => nodes.map((node) => node.title);

describe("the lineage graph", () => {
  it("has a node for each object, with its state and its findings", () => {
    expect(graph.nodes).toHaveLength(7);
    expect(graph.nodes.find((node) => node.id === "query:q1")).toMatchObject({
      title: "Sales",
      state: "running",
      hasFindings: true,
    });
    expect(graph.nodes.find((node) => node.name === SALES)).toMatchObject({
      title: "Sales",
      type: "materialized view",
      state: null,
    });
  });

  it("shows full names where relations of two schemas have the same name", () => {
    const again = {
      sourceKind: "entity",
      source: "g.orders",
      targetKind: "relation",
      target: '"demo"."public"."orders"',
    };
    const nodes = graphOf({ ...facts, edges: [...facts.edges, again] }).nodes;
    expect(titles(nodes.filter((node) => node.kind === "relation"))).toEqual([
      "shop.public.orders",
      "Sales",
      "apart",
      "demo.public.orders",
    ]);
  });

  it("is reduced to what is above or below a node", () => {
    expect(titles(focused(graph, "query:q1", "up").nodes)).toEqual(["k.orders", "orders", "Sales"]);
    expect(titles(focused(graph, "query:q1", "down").nodes)).toEqual(["Sales", "Sales", "k.sales"]);
    expect(focused(graph, "query:q1", "both").nodes).toHaveLength(5);
    expect(focused(graph, "query:gone", "both")).toBe(graph);
  });

  it("finds nodes by words", () => {
    expect(matching(graph.nodes, "  ")).toEqual([]);
    expect(titles(matching(graph.nodes, "sales view"))).toEqual(["Sales"]);
  });

  it("shows what depends on an object", () => {
    expect(impactOf(graph, "entity:k.orders").map((node) => node.id)).toEqual([
      'relation:"shop"."public"."orders"',
      "query:q1",
      `relation:${SALES}`,
    ]);
  });
});

describe("dropping", () => {
  it("ends what depends on a relation only if something does", () => {
    expect(dropStatement("materialized view", '"a"."b"."c"', true)).toBe(
      'DROP MATERIALIZED VIEW "a"."b"."c" CASCADE;',
    );
    expect(dropStatement("stream", "s", false)).toBe("DROP STREAM s;");
  });
});
