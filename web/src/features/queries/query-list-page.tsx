import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { QUERIES, QUERY_FINDINGS, QUERY_METRICS } from "../../catalog/lists";
import { failureIn } from "../../data/answers";
import { useList } from "../../data/use-list";
import { DataTable, type TableColumn } from "../../ui/data-table";
import { Empty } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Page } from "../../ui/page";
import { SearchBox } from "../../ui/search-box";
import { State } from "../../ui/state";
import { compactText, rateText, spanText } from "../../ui/text";
import { choices, filtered, type QueryFilter, type QuerySummary, summaries } from "./overview";

const route = getRouteApi("/queries");

export function QueryListPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const queries = useList(QUERIES, {});
  const metrics = useList(QUERY_METRICS, {});
  const findings = useList(QUERY_FINDINGS, {});
  const failure = failureIn([queries, metrics, findings]);
  const data = useMemo(
    () => (queries.data === null ? null : summaries(queries.data, metrics.data ?? [], findings.data ?? [])),
    [queries.data, metrics.data, findings.data],
  );
  const shown = useMemo(() => filtered(data ?? [], search), [data, search]);
  const change = (part: QueryFilter & { readonly sort?: string | undefined }) =>
    void navigate({ search: (before) => withoutEmpty({ ...before, ...part }), replace: true });

  return (
    <Page title="Queries" facts={data === null ? null : <Summary queries={data} />}>
      <search className="filters" aria-label="Filter">
        <SearchBox
          label="Search by name, id or message"
          placeholder="Name, id or message"
          value={search.text ?? ""}
          onChange={(text) => change({ text })}
        />
        {(["state", "pool", "owner"] as const).map((field) => (
          <label key={field} className="choice">
            <span>{FIELDS[field]}</span>
            <select value={search[field] ?? ""} onChange={(event) => change({ [field]: event.target.value })}>
              <option value="">all</option>
              {choices(data ?? [], field).map((value) => (
                <option key={value} value={value}>
                  {value.replaceAll("_", " ")}
                </option>
              ))}
            </select>
          </label>
        ))}
        <label className="check">
          <input
            type="checkbox"
            checked={search.ended ?? false}
            onChange={(event) => change({ ended: event.target.checked })}
          />
          Ended queries
        </label>
      </search>
      <Loaded data={data} failure={failure}>
        {(queries) =>
          shown.length === 0 ? (
            <None hasQueries={queries.length > 0} />
          ) : (
            <DataTable
              label="Queries"
              rows={shown}
              columns={COLUMNS}
              keyOf={(query) => query.id}
              sort={search.sort}
              onSort={(sort) => change({ sort })}
            />
          )
        }
      </Loaded>
    </Page>
  );
}

const FIELDS = { state: "State", pool: "Pool", owner: "Owner" } as const;

const COLUMNS: readonly TableColumn<QuerySummary>[] = [
  {
    id: "name",
    title: "Query",
    sortKey: (query) => query.name,
    cell: (query) => (
      <div className="named">
        <Link to="/queries/$id" params={{ id: query.id }} className="name">
          {query.name}
        </Link>
        {query.message === "" ? null : (
          <p className={query.state === "errored" ? "note danger" : "note"}>{query.message}</p>
        )}
      </div>
    ),
  },
  {
    id: "state",
    title: "State",
    sortKey: (query) => query.state,
    cell: (query) => <State state={query.state} />,
  },
  {
    id: "findings",
    title: "Findings",
    isNumber: true,
    from: "medium",
    sortKey: (query) => query.findings,
    cell: (query) =>
      query.findings === 0 ? (
        <span className="faint">0</span>
      ) : (
        <Link to="/queries/$id" params={{ id: query.id }} className="warned">
          <Icon name="warning" /> {query.findings}
        </Link>
      ),
  },
  {
    id: "rate",
    title: "Rows in",
    isNumber: true,
    sortKey: (query) => query.rowsPerSecond,
    cell: (query) => rateText(query.rowsPerSecond),
  },
  {
    id: "input",
    title: "In, total",
    isNumber: true,
    from: "wide",
    sortKey: (query) => query.inputRows,
    cell: (query) => compactText(query.inputRows),
  },
  {
    id: "output",
    title: "Out, total",
    isNumber: true,
    from: "wide",
    sortKey: (query) => query.outputRows,
    cell: (query) => compactText(query.outputRows),
  },
  {
    id: "lag",
    title: "Lag",
    isNumber: true,
    from: "medium",
    sortKey: (query) => query.lag,
    cell: (query) => compactText(query.lag),
  },
  {
    id: "watermark",
    title: "Watermark behind",
    isNumber: true,
    from: "wide",
    sortKey: (query) => query.watermarkLagMs,
    cell: (query) => spanText(query.watermarkLagMs),
  },
  {
    id: "stateRows",
    title: "State rows",
    isNumber: true,
    from: "widest",
    sortKey: (query) => query.stateRows,
    cell: (query) => compactText(query.stateRows),
  },
  {
    id: "restarts",
    title: "Restarts",
    isNumber: true,
    from: "widest",
    sortKey: (query) => query.restarts,
    cell: (query) => compactText(query.restarts),
  },
  { id: "pool", title: "Pool", from: "wide", sortKey: (query) => query.pool, cell: (query) => query.pool },
  {
    id: "owner",
    title: "Owner",
    from: "wide",
    sortKey: (query) => query.owner,
    cell: (query) => query.owner,
  },
];

function Summary({ queries }: { readonly queries: readonly QuerySummary[] }) {
  const count = (state: string) => queries.filter((query) => query.state === state).length;
  const states = ["running", "starting", "restarting", "queued", "stopped", "errored"].filter(
    (state) => count(state) > 0,
  );
  const warned = queries.filter((query) => query.findings > 0).length;
  return (
    <p className="page-facts">
      {states.map((state) => (
        <State key={state} state={state} label={`${count(state)} ${state}`} />
      ))}
      {warned === 0 ? null : (
        <span className="warned">
          <Icon name="warning" /> {warned} with findings
        </span>
      )}
    </p>
  );
}

function None({ hasQueries }: { readonly hasQueries: boolean }) {
  return hasQueries ? (
    <Empty title="No query matches">
      Change the filter, or <Link to="/queries">show all queries</Link>.
    </Empty>
  ) : (
    <Empty title="Nothing runs yet">
      <code>CREATE STREAM … AS SELECT</code> starts a query that keeps running.{" "}
      <Link to="/">Write one in the workspace</Link>.
    </Empty>
  );
}

/** An empty field has no place in the address. */
function withoutEmpty(search: Readonly<Record<string, unknown>>): QueryFilter & { readonly sort?: string } {
  return Object.fromEntries(
    Object.entries(search).filter(([, value]) => value !== "" && value !== undefined && value !== false),
  );
}
