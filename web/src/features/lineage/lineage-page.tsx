import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { Empty } from "../../ui/empty";
import { Graph, type GraphNode } from "../../ui/graph";
import { Icon, type IconName } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Page } from "../../ui/page";
import { SearchBox } from "../../ui/search-box";
import { focused, graphOf, type LineageNode, matching, type NodeKind, type Way } from "./lineage";
import { SidePanel } from "./side-panel";
import { useLineage } from "./use-lineage";

const route = getRouteApi("/lineage");
const ICONS: Readonly<Record<NodeKind, IconName>> = {
  entity: "entity",
  relation: "catalog",
  query: "queries",
};
const MAP_FROM_NODES = 40;
const WAYS = { both: "Both ways", up: "Up", down: "Down" } as const;

export function LineagePage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { facts: data, failure } = useLineage();
  const graph = useMemo(() => (data === null ? null : graphOf(data)), [data]);
  const way: Way = search.way !== undefined && search.way in WAYS ? (search.way as Way) : "both";
  const shown = useMemo(
    () => (graph === null ? null : focused(graph, search.focus, way)),
    [graph, search.focus, way],
  );
  const found = useMemo(() => matching(graph?.nodes ?? [], search.text ?? ""), [graph, search.text]);
  const chosen = graph?.nodes.find((node) => node.id === search.node) ?? null;
  const focus = graph?.nodes.find((node) => node.id === search.focus) ?? null;
  const change = (part: Readonly<Record<string, string | undefined>>) =>
    void navigate({ search: (before) => withoutEmpty({ ...before, ...part }), replace: true });
  const loaded = graph === null || shown === null || data === null ? null : { graph, shown, facts: data };

  return (
    <Page
      title="Lineage"
      isFixed
      facts={
        graph === null ? null : (
          <p className="page-facts">
            {(["entity", "relation", "query"] as const).map((kind) => {
              const count = graph.nodes.filter((node) => node.kind === kind).length;
              return (
                <span key={kind} className={`legend kind-${kind}`}>
                  <Icon name={ICONS[kind]} /> {count} {NAMES[kind][count === 1 ? 0 : 1]}
                </span>
              );
            })}
          </p>
        )
      }
    >
      <search className="filters" aria-label="Find in the graph">
        <SearchBox
          label="Find an entity, a relation or a query"
          placeholder="Entity, relation or query"
          value={search.text ?? ""}
          onChange={(text) => change({ text })}
        />
        {focus === null ? null : (
          <>
            <span className="focus-note">
              Around <strong>{focus.title}</strong>
            </span>
            <fieldset className="segments">
              <legend className="hidden">What is shown around {focus.title}</legend>
              {(Object.keys(WAYS) as Way[]).map((each) => (
                <button
                  key={each}
                  type="button"
                  aria-pressed={each === way}
                  onClick={() => change({ way: each })}
                >
                  {WAYS[each]}
                </button>
              ))}
            </fieldset>
            <button
              type="button"
              className="secondary"
              onClick={() => change({ focus: undefined, way: undefined })}
            >
              Show all
            </button>
          </>
        )}
      </search>
      {search.text === undefined ? null : (
        <Found nodes={found} onChoose={(id) => change({ node: id, focus: id, text: undefined })} />
      )}
      <Loaded data={loaded} failure={failure}>
        {({ graph, shown, facts }) =>
          graph.nodes.length === 0 ? (
            <Empty title="No data flows yet">
              The graph shows which query reads which relation, and what it writes.{" "}
              <Link to="/">Create a store and a stream in the workspace</Link>.
            </Empty>
          ) : (
            <div className="graph-frame whole">
              <Graph
                label="Lineage"
                nodes={shown.nodes.map(graphNode)}
                edges={shown.edges}
                selected={chosen?.id ?? null}
                onSelect={(id) => change({ node: id ?? undefined })}
                hasMap={shown.nodes.length > MAP_FROM_NODES}
              />
              {chosen === null ? null : (
                <SidePanel
                  node={chosen}
                  graph={graph}
                  facts={facts}
                  onFocus={() => change({ focus: chosen.id })}
                  onChoose={(id) => change({ node: id })}
                  onClose={() => change({ node: undefined })}
                />
              )}
            </div>
          )
        }
      </Loaded>
    </Page>
  );
}

const NAMES = {
  entity: ["entity", "entities"],
  relation: ["relation", "relations"],
  query: ["query", "queries"],
} as const;

function graphNode(node: LineageNode): GraphNode {
  return {
    id: node.id,
    kind: node.kind,
    kindLabel: node.kind === "entity" ? "entity" : node.kind === "query" ? "query" : node.type,
    icon: ICONS[node.kind],
    title: node.title,
    isWarned: node.hasFindings,
    ...(node.state === null ? {} : { state: node.state }),
  };
}

interface FoundProps {
  readonly nodes: readonly LineageNode[];
  readonly onChoose: (id: string) => void;
}

const FOUND_MAX = 12;

function Found({ nodes, onChoose }: FoundProps) {
  return (
    <section className="found" aria-label="Matches">
      <p className="faint" role="status">
        {nodes.length === 0
          ? "Nothing matches."
          : `${nodes.length} found. Choose one to show what is around it.`}
      </p>
      <ul>
        {nodes.slice(0, FOUND_MAX).map((node) => (
          <li key={node.id}>
            <button type="button" className="secondary" onClick={() => onChoose(node.id)}>
              <Icon name={ICONS[node.kind]} /> {node.title} <span className="faint">{node.type}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function withoutEmpty(search: Readonly<Record<string, string | undefined>>) {
  return Object.fromEntries(
    Object.entries(search).filter(([, value]) => value !== "" && value !== undefined),
  );
}
