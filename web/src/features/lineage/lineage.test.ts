import { describe, expect, it } from "vitest";
import { dropStatement, focused, graphOf, impactOf, type LineageFacts, matching } from "./lineage";

const SALES = '"shop"."public"."Sales"';
const facts: LineageFacts = {
  edges: [
    { fromKind: "entity", from: "k.orders", toKind: "relation", to: '"shop"."public"."orders"' },
    { fromKind: "relation", from: '"shop"."public"."orders"', toKind: "query", to: "q1" },
    { fromKind: "query", from: "q1", toKind: "relation", to: SALES },
    { fromKind: "relation", from: SALES, toKind: "entity", to: "k.sales" },
    { fromKind: "entity", from: "k.apart", toKind: "relation", to: '"shop"."public"."apart"' },
  ],
  queries: [
    { id: "q1", name: null, sink: SALES, state: "running", kind: "changelog", pool: "p", message: null },
  ],
  relations: [{ fqn: SALES, type: "materialized_view", owner: "r", description: null }],
  metrics: [],
  findings: [{ id: "q1" }],
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
