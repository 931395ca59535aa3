import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { literal, numberOf, selectFrom } from "../../data/select";
import { useAnswer } from "../../data/use-answer";
import { useRefusal } from "../../data/use-right";
import { useSession } from "../../session-context";
import { quotePath, readPath } from "../../sql/identifiers";
import { ActionButton } from "../../ui/action-button";
import { Icon } from "../../ui/icons";
import { State } from "../../ui/state";
import { compactText, rateText } from "../../ui/text";
import { DropDialog } from "./drop-dialog";
import { impactOf, type LineageFacts, type LineageGraph, type LineageNode } from "./lineage";

interface SidePanelProps {
  readonly node: LineageNode;
  readonly graph: LineageGraph;
  readonly facts: LineageFacts;
  readonly onFocus: () => void;
  readonly onChoose: (id: string) => void;
  readonly onClose: () => void;
}

/** Details of the chosen node: what it is, where its columns come from, and what depends on it. */
export function SidePanel({ node, graph, facts, onFocus, onChoose, onClose }: SidePanelProps) {
  const impact = impactOf(graph, node.id);
  return (
    <aside className="graph-side" aria-label={`${node.kind} ${node.title}`}>
      <div className="side-head">
        <h2>{node.title}</h2>
        <button type="button" className="ghost" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      <p className="faint side-name">
        {node.kind === "query" ? `query ${node.name}` : `${node.type} ${node.name}`}
      </p>
      <div className="cell-actions">
        <button type="button" className="secondary" onClick={onFocus}>
          <Icon name="lineage" /> Only what is around it
        </button>
        <Actions node={node} impact={impact} onDropped={onClose} />
      </div>
      {node.kind === "query" ? <QueryFigures node={node} facts={facts} /> : null}
      {node.kind === "relation" ? <Columns fqn={node.name} graph={graph} onChoose={onChoose} /> : null}
      <h3>Depends on it</h3>
      {impact.length === 0 ? (
        <p className="note">Nothing. Dropping it affects no other object.</p>
      ) : (
        <ul className="side-list">
          {impact.map((each) => (
            <li key={each.id}>
              <button type="button" className="ghost" onClick={() => onChoose(each.id)}>
                <Icon name={each.kind === "query" ? "queries" : "catalog"} /> {each.title}{" "}
                <span className="faint">{each.kind === "query" ? "query" : each.type}</span>
              </button>
            </li>
          ))}
        </ul>
      )}
    </aside>
  );
}

interface ActionsProps {
  readonly node: LineageNode;
  readonly impact: readonly LineageNode[];
  readonly onDropped: () => void;
}

function Actions({ node, impact, onDropped }: ActionsProps) {
  const { runStatement } = useSession();
  const [isDropping, setDropping] = useState(false);
  const path = quotePath(readPath(node.name));
  const refusal = useRefusal("OWNERSHIP", `RELATION ${path}`, node.kind === "relation");
  if (node.kind === "query") {
    return (
      <Link className="button secondary" to="/queries/$id" params={{ id: node.name }}>
        <Icon name="queries" /> Open
      </Link>
    );
  }
  if (node.kind === "entity") return null;
  return (
    <>
      <button type="button" className="secondary" onClick={() => runStatement(`SELECT * FROM ${path};`)}>
        <Icon name="play" /> Show rows
      </button>
      <ActionButton isDangerous refusal={refusal} onClick={() => setDropping(true)}>
        <Icon name="clear" /> Drop
      </ActionButton>
      {isDropping ? (
        <DropDialog node={node} impact={impact} onClose={() => setDropping(false)} onDone={onDropped} />
      ) : null}
    </>
  );
}

function QueryFigures({ node, facts }: { readonly node: LineageNode; readonly facts: LineageFacts }) {
  const query = facts.queries.find((each) => each.id === node.name);
  const metrics = facts.metrics.find((each) => each.queryId === node.name);
  return (
    <>
      <dl className="facts side-facts">
        <dt>State</dt>
        <dd>
          <State state={node.state ?? ""} />
        </dd>
        <dt>Rows in</dt>
        <dd>
          {rateText(metrics?.inputRowsPerSecond ?? null)}, {compactText(numberOf(metrics?.inputRowsTotal))} in
          total
        </dd>
        <dt>Rows out</dt>
        <dd>{compactText(numberOf(metrics?.outputRowsTotal))} in total</dd>
        <dt>Pool</dt>
        <dd>{query?.computePoolName}</dd>
      </dl>
      {query?.message === null || query?.message === undefined ? null : (
        <p className={node.state === "errored" ? "note danger" : "note warned-text"}>{query.message}</p>
      )}
    </>
  );
}

interface ColumnsProps {
  readonly fqn: string;
  readonly graph: LineageGraph;
  readonly onChoose: (id: string) => void;
}

/** The columns of a relation, each with the columns that it is computed from. */
function Columns({ fqn, graph, onChoose }: ColumnsProps) {
  const [columns, sources] = useMemo(() => {
    const [database, schema, relation] = readPath(fqn);
    return [
      selectFrom(
        "relation_columns",
        ["name", "type"],
        `WHERE database_name = ${literal(database ?? "")} AND schema_name = ${literal(schema ?? "")} AND relation_name = ${literal(relation ?? "")} ORDER BY "position"`,
      ),
      selectFrom(
        "column_lineage",
        ["column_name", "source_relation", "source_column", "usage", "is_direct"],
        `WHERE relation = ${literal(fqn)}`,
      ),
    ] as const;
  }, [fqn]);
  const named = useAnswer(columns);
  const edges = useAnswer(sources);
  const rowDecisions = edges.data?.filter((edge) => edge.column_name === null) ?? [];
  return (
    <>
      <h3>Columns</h3>
      <ul className="side-list columns">
        {named.data?.map((column) => {
          const from = edges.data?.filter((edge) => edge.column_name === column.name) ?? [];
          return (
            <li key={column.name}>
              <p>
                <code>{column.name}</code> <span className="faint">{column.type}</span>
              </p>
              {from.map((edge) => (
                <p key={`${edge.source_relation} ${edge.source_column} ${edge.usage}`} className="origin">
                  ←{" "}
                  <button
                    type="button"
                    className="link calm"
                    disabled={!graph.nodes.some((each) => each.id === `relation:${edge.source_relation}`)}
                    onClick={() => onChoose(`relation:${edge.source_relation}`)}
                  >
                    {readPath(edge.source_relation ?? "").at(-1)}.{edge.source_column}
                  </button>{" "}
                  <span className="faint">{(edge.usage ?? "").toLowerCase().replaceAll("_", " ")}</span>
                </p>
              ))}
            </li>
          );
        })}
      </ul>
      {rowDecisions.length === 0 ? null : (
        <>
          <h3>Decide about its rows</h3>
          <ul className="side-list">
            {rowDecisions.map((edge) => (
              <li key={`${edge.source_relation} ${edge.source_column} ${edge.usage}`} className="origin">
                {readPath(edge.source_relation ?? "").at(-1)}.{edge.source_column}{" "}
                <span className="faint">{(edge.usage ?? "").toLowerCase().replaceAll("_", " ")}</span>
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
