import { useMemo, useState } from "react";
import { Items } from "../../catalog/items";
import { QUERIES } from "../../catalog/lists";
import { isEnded, type QueryItem, queryItems } from "../../catalog/workload";
import { useList } from "../../data/use-list";
import { TerminateDialog } from "../../query-actions/dialogs";
import { Icon } from "../../ui/icons";
import { Branch } from "./branch";
import type { ExplorerProps } from "./explorer";
import { Row } from "./row";
import { Section } from "./section";

/** The queries that run or should run; ended queries are collapsed into one line with their number. */
export function Queries({ isShown, onRun }: ExplorerProps) {
  const [asked, setAsked] = useState<QueryItem | null>(null);
  const { data, failure } = useList(QUERIES, {}, { isEnabled: isShown });
  const queries = useMemo(() => (data === null ? null : queryItems(data)), [data]);
  const current = queries?.filter((query) => !isEnded(query)) ?? null;
  const ended = queries?.filter(isEnded) ?? [];
  const itemOf = (query: QueryItem) => <QueryEntry query={query} onRun={onRun} onTerminate={setAsked} />;
  return (
    <Section title="Queries" count={current?.length ?? null}>
      <Items
        items={current}
        failure={failure}
        empty={
          <>
            Nothing runs. <code>CREATE STREAM … AS SELECT</code> starts a query that keeps running.
          </>
        }
        keyOf={(query) => query.id}
        render={itemOf}
      />
      {ended.length === 0 ? null : (
        <Branch label="Ended" badge={<span className="count">{ended.length}</span>}>
          {() => (
            <ul className="list">
              {ended.map((query) => (
                <li key={query.id}>{itemOf(query)}</li>
              ))}
            </ul>
          )}
        </Branch>
      )}
      {asked === null ? null : <TerminateDialog query={asked} onClose={() => setAsked(null)} />}
    </Section>
  );
}

interface QueryEntryProps {
  readonly query: QueryItem;
  readonly onRun: (statement: string) => void;
  readonly onTerminate: (query: QueryItem) => void;
}

/** A query: it expands to its SQL, and shows its error. */
function QueryEntry({ query, onRun, onTerminate }: QueryEntryProps) {
  const [isOpen, setOpen] = useState(false);
  const describe = {
    icon: "play",
    label: `Run DESCRIBE QUERY of ${query.name}`,
    onClick: () => onRun(`DESCRIBE QUERY ${query.id};`),
  } as const;
  const terminate = {
    icon: "stop",
    label: `Terminate query ${query.name}`,
    onClick: () => onTerminate(query),
  } as const;
  return (
    <div className={isEnded(query) ? "query ended" : "query"}>
      <Row actions={isEnded(query) ? [describe] : [describe, terminate]}>
        <button
          type="button"
          className="item"
          aria-expanded={isOpen}
          title={`${query.name}, ${stateText(query)}`}
          onClick={() => setOpen(!isOpen)}
        >
          <span className={isOpen ? "chevron open" : "chevron"}>
            <Icon name="chevron" />
          </span>
          <span className={`dot query-${query.state}`} aria-hidden="true" />
          <span className="item-name">{query.name}</span>
          <span className="item-state">{stateText(query)}</span>
        </button>
      </Row>
      {query.message === "" ? null : <p className={messageClass(query, isOpen)}>{query.message}</p>}
      {isOpen ? <pre className="query-sql">{query.sql || query.id}</pre> : null}
    </div>
  );
}

function messageClass(query: QueryItem, isOpen: boolean): string {
  const tone = query.state === "errored" ? "query-message danger" : "query-message";
  return isOpen ? `${tone} whole` : tone;
}

/** States that lead to another one by themselves, which then needs no words. */
const NEXT: Readonly<Record<string, string>> = {
  queued: "running",
  starting: "running",
  restarting: "running",
  terminate_requested: "terminated",
};

function stateText(query: QueryItem): string {
  if (isEnded(query) && query.intendedState === "stopped") {
    return "stopped";
  }
  const isChanging = query.intendedState !== "" && query.intendedState !== query.state;
  const isExpected = query.state === "errored" || !isChanging || NEXT[query.state] === query.intendedState;
  return (isExpected ? query.state : `${query.state} → ${query.intendedState}`).replaceAll("_", " ");
}
