/** A graph that can be moved and zoomed, by React Flow; its nodes are buttons in the order of the tab key. */

import {
  Background,
  Controls,
  type Edge as FlowEdge,
  type Node as FlowNode,
  Handle,
  MiniMap,
  type NodeProps,
  Position,
  ReactFlow,
  ReactFlowProvider,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import "../styles/graph.css";
import { useEffect, useMemo, useState } from "react";
import { type Direction, type Edge, layout } from "./graph-layout";
import { Icon, type IconName } from "./icons";

export interface GraphNode {
  readonly id: string;
  /** Kind of the object, and its colour. */
  readonly kind: string;
  readonly kindLabel: string;
  readonly icon: IconName;
  readonly title: string;
  readonly note?: string;
  /** A state in colour beside the title. */
  readonly state?: string;
  readonly isWarned?: boolean;
}

interface GraphProps {
  readonly label: string;
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly Edge[];
  readonly selected: string | null;
  readonly onSelect: (id: string | null) => void;
  /** A map of the whole graph in the corner, for graphs that do not fit. */
  readonly hasMap?: boolean;
}

const SIZE = { width: 208, height: 58 };
/** A graph that does not fit is shown in part, so that its texts can be read. */
const FIT = { padding: 0.12, minZoom: 0.45, maxZoom: 1.1 };
const NARROW = "(max-width: 720px)";

type FlowData = Omit<GraphNode, "id"> & { readonly direction: Direction; readonly [key: string]: unknown };

export function Graph(props: GraphProps) {
  return (
    <ReactFlowProvider>
      <Canvas {...props} />
    </ReactFlowProvider>
  );
}

function Canvas({ label, nodes, edges, selected, onSelect, hasMap }: GraphProps) {
  const direction: Direction = useIsNarrow() ? "TB" : "LR";
  const flow = useReactFlow();
  const width = useStore((state) => state.width);
  // Places depend on the ids and edges only: a node does not jump when its figures change.
  const shape = JSON.stringify([nodes.map((node) => node.id), edges, direction]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` is all of it that counts.
  const places = useMemo(
    () =>
      layout(
        nodes.map((node) => node.id),
        edges,
        SIZE,
        direction,
      ),
    [shape],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: another graph, or one with less room, is shown as a whole.
  useEffect(() => {
    const frame = requestAnimationFrame(() => void flow.fitView(FIT));
    return () => cancelAnimationFrame(frame);
  }, [shape, width, flow]);

  const flowNodes: FlowNode<FlowData>[] = nodes.map(({ id, ...data }) => ({
    id,
    type: "object",
    position: places.get(id) ?? { x: 0, y: 0 },
    data: { ...data, direction },
    selected: id === selected,
    ariaLabel: `${data.kindLabel} ${data.title}${data.state === undefined ? "" : `, ${data.state}`}${data.isWarned === true ? ", has findings" : ""}`,
    width: SIZE.width,
    height: SIZE.height,
  }));
  const flowEdges: FlowEdge[] = edges.map(({ from, to }) => ({
    id: `${from} → ${to}`,
    source: from,
    target: to,
    className: selected !== null && (from === selected || to === selected) ? "edge-selected" : "",
    focusable: false,
  }));
  return (
    <section className="graph" aria-label={label}>
      <ReactFlow
        nodes={flowNodes}
        edges={flowEdges}
        nodeTypes={NODE_TYPES}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        minZoom={0.1}
        maxZoom={1.6}
        fitView
        fitViewOptions={FIT}
        onNodeClick={(_, node) => onSelect(node.id)}
        onPaneClick={() => onSelect(null)}
        onNodesChange={(changes) => {
          // By keyboard: unlike onSelectionChange, this is not called for a selection of the page itself.
          for (const change of changes) {
            if (change.type === "select" && change.selected) onSelect(change.id);
          }
        }}
      >
        <Background gap={20} size={1} />
        <Controls showInteractive={false} />
        {hasMap === true ? <MiniMap pannable zoomable ariaLabel="Map of the graph" /> : null}
      </ReactFlow>
    </section>
  );
}

function ObjectNode({ data, selected }: NodeProps<FlowNode<FlowData>>) {
  const [before, after] =
    data.direction === "LR" ? [Position.Left, Position.Right] : [Position.Top, Position.Bottom];
  return (
    <div
      className={`node kind-${data.kind}${selected === true ? " selected" : ""}${data.isWarned === true ? " warned" : ""}`}
    >
      <Handle type="target" position={before} isConnectable={false} />
      <p className="node-kind">
        <Icon name={data.icon} /> {data.kindLabel}
        {data.isWarned === true ? <Icon name="warning" /> : null}
      </p>
      <p className="node-title" title={data.title}>
        {data.state === undefined ? null : <span className={`dot query-${data.state}`} aria-hidden="true" />}
        <span>{data.title}</span>
      </p>
      {data.note === undefined ? null : (
        <p className="node-note" title={data.note}>
          {data.note}
        </p>
      )}
      <Handle type="source" position={after} isConnectable={false} />
    </div>
  );
}

const NODE_TYPES = { object: ObjectNode };

function useIsNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const change = () => setNarrow(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  return isNarrow;
}
