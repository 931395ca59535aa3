import { getRouteApi, Link } from "@tanstack/react-router";
import { lazy, Suspense, useMemo, useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import { isEnded, nameOf } from "../../catalog/workload";
import { momentOf } from "../../data/select";
import { useAnswer } from "../../data/use-answer";
import { useRefusal } from "../../data/use-right";
import { download } from "../../grid/export";
import { countText } from "../../grid/values";
import {
  PauseDialog,
  type QuerySubject,
  RestartDialog,
  SavepointDialog,
  TerminateDialog,
} from "../../query-actions/dialogs";
import { ReplaceDialog } from "../../query-actions/replace-dialog";
import { queryName, stateRefusal } from "../../query-actions/statements";
import { useSession } from "../../session-context";
import { ActionButton } from "../../ui/action-button";
import { Empty } from "../../ui/empty";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";
import { Page, PageLoading, Skeletons } from "../../ui/page";
import { State } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import { timeText } from "../../ui/text";
import { bundleOf } from "./bundle";
import { type QueryFacts, queryFacts } from "./facts";
import { RANGES, type Range } from "./history";
import { HistoryTab } from "./history-tab";
import { OverviewTab } from "./overview-tab";

const PlanGraph = lazy(() => import("./plan-graph").then((module) => ({ default: module.PlanGraph })));
const route = getRouteApi("/queries/$id");
const TABS = { overview: "Overview", plan: "Plan", sql: "SQL", history: "History" } as const;
type Tab = keyof typeof TABS;
type Action = "terminate" | "restart" | "savepoint" | "replace" | "pause";

export function QueryPage() {
  const { id } = route.useParams();
  const select = useMemo(() => queryFacts(id), [id]);
  const { data, failure } = useAnswer({ ...select, progress: { ids: [id] } });
  const [row] = data?.queries ?? [];
  if (data === null && failure === null) return <PageLoading />;
  if (data === null || row === undefined) {
    return (
      <Page title="Query" above={<Link to="/queries">Queries</Link>}>
        <FailureNote failure={failure} />
        {failure === null ? (
          <Empty title="There is no such query">
            It was dropped, or your role may not see it. <Link to="/queries">Show all queries</Link>.
          </Empty>
        ) : null}
      </Page>
    );
  }
  return <Query facts={data} row={row} />;
}

function Query({ facts, row }: { readonly facts: QueryFacts; readonly row: QueryFacts["queries"][number] }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { client, writeStatement } = useSession();
  const [action, setAction] = useState<Action | null>(null);
  const tab: Tab = search.tab !== undefined && search.tab in TABS ? (search.tab as Tab) : "overview";
  const range: Range = search.range !== undefined && search.range in RANGES ? (search.range as Range) : "1h";
  const query: QuerySubject = {
    id: row.id ?? "",
    name: nameOf(row),
    state: row.state ?? "",
    sink: row.sink ?? "",
  };
  const lacking = useRefusal("OWNERSHIP", `QUERY ${queryName(query.id)}`);
  const [bundleFailure, setBundleFailure] = useState<Failure | null>(null);
  async function downloadBundle(): Promise<void> {
    setBundleFailure(null);
    try {
      const bundle = bundleOf(facts, await client.version(), new Date());
      download(`headrace-query-${query.id}.json`, "application/json", bundle);
    } catch (error) {
      setBundleFailure(failureOf(error));
    }
  }
  const isPaused = row.intended === "stopped";
  const refusal = (of: Action) => lacking ?? stateRefusal(of, query.state);
  const unpausable = query.sink === "" ? "It writes no relation that could be stopped." : null;

  return (
    <Page
      title={query.name}
      above={<Link to="/queries">Queries</Link>}
      status={
        <>
          <State state={query.state} />
          {row.intended !== null &&
          row.intended !== query.state &&
          !isEnded(query) &&
          query.state !== "errored" ? (
            <span className="faint">→ {row.intended}</span>
          ) : null}
        </>
      }
      facts={
        <p className="page-facts">
          <span>{(row.kind ?? "").toLowerCase().replaceAll("_", " ")}</span>
          <span>
            pool <strong>{row.pool}</strong>
          </span>
          <span>
            owner <strong>{row.owner}</strong>
          </span>
          <span>version {row.version}</span>
          <span>since {timeText(momentOf(row.created))}</span>
          {row.restarts === "0" ? null : <span>{countText(Number(row.restarts), "restart")}</span>}
          <code className="id">{query.id}</code>
        </p>
      }
      actions={
        <>
          <ActionButton refusal={refusal("restart")} onClick={() => setAction("restart")}>
            <Icon name="refresh" /> Restart
          </ActionButton>
          <ActionButton refusal={refusal("pause") ?? unpausable} onClick={() => setAction("pause")}>
            <Icon name={isPaused ? "play" : "pause"} /> {isPaused ? "Resume" : "Pause"}
          </ActionButton>
          <ActionButton refusal={refusal("replace")} onClick={() => setAction("replace")}>
            <Icon name="write" /> Replace
          </ActionButton>
          <ActionButton refusal={refusal("savepoint")} onClick={() => setAction("savepoint")}>
            <Icon name="save" /> Savepoint
          </ActionButton>
          <button type="button" className="secondary" onClick={() => void downloadBundle()}>
            <Icon name="download" /> Support bundle
          </button>
          <ActionButton isDangerous refusal={refusal("terminate")} onClick={() => setAction("terminate")}>
            <Icon name="stop" /> Terminate
          </ActionButton>
        </>
      }
    >
      {lacking === null ? null : <p className="note">{lacking}. Without it the query cannot be changed.</p>}
      <FailureNote failure={bundleFailure} />
      <Findings facts={facts} row={row} />
      <Tabs
        label="Parts of the query"
        tabs={TABS}
        chosen={tab}
        onChoose={(next) => void navigate({ search: (before) => ({ ...before, tab: next }), replace: true })}
      >
        {tab === "overview" ? (
          <OverviewTab
            id={query.id}
            facts={facts}
            isEnded={isEnded(query)}
            range={range}
            onRange={(next) =>
              void navigate({ search: (before) => ({ ...before, range: next }), replace: true })
            }
          />
        ) : null}
        {tab === "plan" ? (
          <Suspense fallback={<Skeletons />}>
            <PlanGraph facts={facts} />
          </Suspense>
        ) : null}
        {tab === "sql" ? (
          <>
            <dl className="facts">
              <dt>Reads</dt>
              <dd>{facts.sources.map((source) => source.relation).join(", ") || "–"}</dd>
              <dt>Writes</dt>
              <dd>{query.sink}</dd>
            </dl>
            <pre className="viewer-value tall">{row.sql}</pre>
            <p>
              <button type="button" className="secondary" onClick={() => writeStatement(`${row.sql ?? ""};`)}>
                <Icon name="write" /> Copy into the editor
              </button>
            </p>
          </>
        ) : null}
        {tab === "history" ? <HistoryTab query={query} facts={facts} refusal={lacking} /> : null}
      </Tabs>
      {action === "terminate" ? <TerminateDialog query={query} onClose={() => setAction(null)} /> : null}
      {action === "restart" ? <RestartDialog query={query} onClose={() => setAction(null)} /> : null}
      {action === "pause" ? (
        <PauseDialog query={query} isPaused={isPaused} onClose={() => setAction(null)} />
      ) : null}
      {action === "replace" ? (
        <ReplaceDialog query={query} sql={row.sql ?? ""} onClose={() => setAction(null)} />
      ) : null}
      {action === "savepoint" ? <SavepointDialog query={query} onClose={() => setAction(null)} /> : null}
    </Page>
  );
}

/** Findings in words: why the query has no output, or will have a problem, and what to do. */
function Findings({
  facts,
  row,
}: {
  readonly facts: QueryFacts;
  readonly row: QueryFacts["queries"][number];
}) {
  if (facts.findings.length > 0) {
    return (
      <section className="findings" aria-label="Findings">
        {facts.findings.map((finding) => (
          <article key={`${finding.code} ${finding.step}`} className="finding">
            <Icon name="warning" />
            <div>
              <p className="finding-text">{sentence(finding.finding)}</p>
              <p className="finding-remedy">{sentence(finding.remedy)}</p>
              <p className="finding-facts">
                <code>{finding.code}</code>
                {finding.step === null ? null : <span>step {finding.step}</span>}
                {finding.since === null ? null : <span>since {timeText(momentOf(finding.since))}</span>}
              </p>
            </div>
          </article>
        ))}
      </section>
    );
  }
  if (row.message !== null && row.message !== "") {
    return (
      <section className={row.state === "errored" ? "failure compact" : "finding calm"} aria-label="Message">
        {row.sqlstate === null ? null : <p className="failure-code">SQLSTATE {row.sqlstate}</p>}
        <p>{row.message}</p>
      </section>
    );
  }
  return row.state === "running" ? (
    <p className="healthy">
      <Icon name="check" /> No known problem.
    </p>
  ) : null;
}

function sentence(text: string | null): string {
  const shown = text ?? "";
  const upper = shown.charAt(0).toUpperCase() + shown.slice(1);
  return upper === "" || /[.!?]$/.test(upper) ? upper : `${upper}.`;
}
