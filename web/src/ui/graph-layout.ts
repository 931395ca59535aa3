/** Places of the nodes of a directed graph, from left to right, or from top to bottom in a narrow window. */

import dagre from "@dagrejs/dagre";

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Edge {
  readonly from: string;
  readonly to: string;
}

export type Direction = "LR" | "TB";

/** Top left corners by node id. Edges of unknown nodes are left out. */
export function layout(
  ids: readonly string[],
  edges: readonly Edge[],
  size: Size,
  direction: Direction,
): ReadonlyMap<string, { readonly x: number; readonly y: number }> {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: direction, nodesep: 18, ranksep: direction === "LR" ? 56 : 36 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const id of ids) graph.setNode(id, { ...size });
  for (const { from, to } of edges) {
    if (graph.hasNode(from) && graph.hasNode(to)) graph.setEdge(from, to);
  }
  dagre.layout(graph);
  return new Map(
    ids.map((id) => {
      const { x, y } = graph.node(id);
      return [id, { x: x - size.width / 2, y: y - size.height / 2 }];
    }),
  );
}

/** The nodes that are reached from a node along the edges, in one direction or in both, with the node itself. */
export function reachable(
  edges: readonly Edge[],
  start: string,
  way: "up" | "down" | "both",
): ReadonlySet<string> {
  const reached = new Set([start]);
  const follow = (origin: (edge: Edge) => string, target: (edge: Edge) => string) => {
    const seen = new Set([start]);
    const queue = [start];
    for (let node = queue.shift(); node !== undefined; node = queue.shift()) {
      for (const edge of edges) {
        if (origin(edge) !== node || seen.has(target(edge))) continue;
        seen.add(target(edge));
        queue.push(target(edge));
      }
    }
    for (const node of seen) reached.add(node);
  };
  if (way !== "down")
    follow(
      (edge) => edge.to,
      (edge) => edge.from,
    );
  if (way !== "up")
    follow(
      (edge) => edge.from,
      (edge) => edge.to,
    );
  return reached;
}
