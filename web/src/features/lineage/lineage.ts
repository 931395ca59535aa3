/** The lineage graph: entities, relations and queries with the edges along which data flows. */

import type { LineageRow, QueryFigures, QueryFinding, QueryRow, RelationRow } from "../../catalog/lists";
import { isEnded, nameOf } from "../../catalog/workload";
import { readPath } from "../../sql/identifiers";
import { type Edge, reachable } from "../../ui/graph-layout";

export interface LineageFacts {
  readonly edges: readonly LineageRow[];
  readonly queries: readonly QueryRow[];
  readonly relations: readonly RelationRow[];
  readonly metrics: readonly QueryFigures[];
  readonly findings: readonly QueryFinding[];
}

export type NodeKind = "entity" | "relation" | "query";

export interface LineageNode {
  /** Kind and name, unique in the graph and readable in the address. */
  readonly id: string;
  readonly kind: NodeKind;
  /** Full name of a relation, store and name of an entity, id of a query. */
  readonly name: string;
  readonly title: string;
  readonly type: string;
  readonly state: string | null;
  readonly hasFindings: boolean;
}

export interface LineageGraph {
  readonly nodes: readonly LineageNode[];
  readonly edges: readonly Edge[];
}

function nodeId(kind: string, name: string): string {
  return `${kind}:${name}`;
}

export function graphOf(facts: LineageFacts): LineageGraph {
  const queries = new Map(facts.queries.map((query) => [query.id, query]));
  const relations = new Map(facts.relations.map((relation) => [relation.fqn, relation]));
  const warned = new Set(facts.findings.map((finding) => finding.queryId));
  const nodes = new Map<string, LineageNode>();
  const add = (kind: string, name: string) => {
    const id = nodeId(kind, name);
    if (nodes.has(id)) return id;
    const query = kind === "query" ? queries.get(name) : undefined;
    const relation = kind === "relation" ? relations.get(name) : undefined;
    nodes.set(id, {
      id,
      kind: kind as NodeKind,
      name,
      title:
        query !== undefined
          ? nameOf({ id: query.id, name: query.name, sink: query.sinkFqn })
          : kind === "relation"
            ? (readPath(name).at(-1) ?? "")
            : name,
      type: (query?.kind ?? relation?.relationType ?? kind).replaceAll("_", " "),
      state: query === undefined || isEnded({ state: query.currentState }) ? null : query.currentState,
      hasFindings: warned.has(name),
    });
    return id;
  };
  const edges = facts.edges.map((edge) => ({
    from: add(edge.sourceKind, edge.source),
    to: add(edge.targetKind, edge.target),
  }));
  return { nodes: withDistinctTitles([...nodes.values()]), edges };
}

/** The nodes, where relations of the same name in different schemas have their full names as titles. */
function withDistinctTitles(nodes: readonly LineageNode[]): readonly LineageNode[] {
  const counts = new Map<string, number>();
  for (const { kind, title } of nodes) {
    if (kind === "relation") counts.set(title, (counts.get(title) ?? 0) + 1);
  }
  return nodes.map((node) =>
    node.kind === "relation" && (counts.get(node.title) ?? 0) > 1
      ? { ...node, title: readPath(node.name).join(".") }
      : node,
  );
}

export type Way = "up" | "down" | "both";

/** The part of a graph around a node; the whole graph without a node, or if the node is not in it. */
export function focused(graph: LineageGraph, focus: string | undefined, way: Way): LineageGraph {
  if (focus === undefined || !graph.nodes.some((node) => node.id === focus)) return graph;
  const kept = reachable(graph.edges, focus, way);
  return {
    nodes: graph.nodes.filter((node) => kept.has(node.id)),
    edges: graph.edges.filter((edge) => kept.has(edge.from) && kept.has(edge.to)),
  };
}

/** The nodes whose names contain all words of a text. */
export function matching(nodes: readonly LineageNode[], text: string): readonly LineageNode[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  return nodes.filter((node) => {
    const names = `${node.title} ${node.name} ${node.type}`.toLowerCase();
    return words.every((word) => names.includes(word));
  });
}

/** DROP of a relation of a type, such as a materialized view. */
export function dropStatement(type: string, path: string, cascades: boolean): string {
  return `DROP ${type.toUpperCase()} ${path}${cascades ? " CASCADE" : ""};`;
}

/** The queries and relations below a node, which a drop of it affects. */
export function impactOf(graph: LineageGraph, id: string): readonly LineageNode[] {
  const below = reachable(graph.edges, id, "down");
  return graph.nodes.filter((node) => node.id !== id && node.kind !== "entity" && below.has(node.id));
}
