import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { readProperties } from "../../catalog/listing";
import { nameOf } from "../../catalog/workload";
import { InsertDialog } from "../../data/insert-dialog";
import { momentOf, reader } from "../../data/select";
import { useAnswer } from "../../data/use-answer";
import { useRefusal } from "../../data/use-right";
import { useSession } from "../../session-context";
import { quotePath, readPath } from "../../sql/identifiers";
import { ActionButton } from "../../ui/action-button";
import { DataTable } from "../../ui/data-table";
import { Empty } from "../../ui/empty";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Page, PageLoading } from "../../ui/page";
import { RelationType } from "../../ui/relation-type";
import { State } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import { timeText } from "../../ui/text";
import { DescribeDialog } from "./describe-dialog";
import { type RelationFacts, relationDdl, relationFacts } from "./relations";
import { Sample } from "./sample";

const route = getRouteApi("/catalog/$database/$schema/$relation");
const TABS = {
  columns: "Columns",
  sample: "Sample",
  queries: "Queries",
  definition: "Definition",
  grants: "Grants",
};
type Tab = keyof typeof TABS;
const DESCRIBED = ["relations"];
const GRANTED = ["grants"];

export function RelationPage() {
  const { database, schema, relation } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { runStatement, writeStatement } = useSession();
  const select = useMemo(() => relationFacts(database, schema, relation), [database, schema, relation]);
  const { data, failure } = useAnswer(select);
  const path = quotePath([database, schema, relation]);
  const statement = `SELECT * FROM ${path};`;
  const refusal = useRefusal("OWNERSHIP", `RELATION ${path}`);
  const [isDescribing, setDescribing] = useState(false);
  const insertRefusal = useRefusal("INSERT", `RELATION ${path}`);
  const [isInserting, setInserting] = useState(false);
  const [isInserted, setInserted] = useState(false);
  const tab: Tab = search.tab !== undefined && search.tab in TABS ? (search.tab as Tab) : "columns";
  if (data === null && failure === null) return <PageLoading />;
  const [row] = data?.relations ?? [];
  const above = (
    <>
      <Link to="/catalog">Catalog</Link> / {database} / {schema}
    </>
  );
  if (data === null || row === undefined) {
    return (
      <Page title={relation} above={above}>
        <FailureNote failure={failure} />
        {failure === null ? (
          <Empty title="There is no such relation">
            It was dropped or renamed, or your role may not see it.{" "}
            <Link to="/catalog">Show the catalog</Link>.
          </Empty>
        ) : null}
      </Page>
    );
  }
  return (
    <Page
      title={relation}
      above={above}
      status={<RelationType type={row.type ?? ""} />}
      facts={
        <>
          {row.description === null ? null : <p className="note">{row.description}</p>}
          <p className="page-facts">
            <span>
              owner <strong>{row.owner}</strong>
            </span>
            {row.store === null ? null : (
              <span>
                entity <strong>{row.entity}</strong> in <strong>{row.store}</strong>
              </span>
            )}
            {row.key === null || row.key === "" ? null : (
              <span>
                key <strong>{row.key}</strong>
              </span>
            )}
            <span>since {timeText(momentOf(row.created))}</span>
          </p>
          {isInserted ? (
            <p className="note" role="status">
              The row was inserted.
            </p>
          ) : null}
        </>
      }
      actions={
        <>
          <button type="button" className="secondary" onClick={() => runStatement(statement)}>
            <Icon name="play" /> Show rows
          </button>
          <button type="button" className="secondary" onClick={() => writeStatement(statement)}>
            <Icon name="write" /> Write a SELECT
          </button>
          {row.type === "materialized_view" || row.type === "view" ? null : (
            <ActionButton refusal={insertRefusal} onClick={() => setInserting(true)}>
              <Icon name="plus" /> Insert a row
            </ActionButton>
          )}
          <ActionButton refusal={refusal} onClick={() => setDescribing(true)}>
            <Icon name="write" /> Describe
          </ActionButton>
          <Link
            className="button secondary"
            to="/lineage"
            search={{ node: `relation:${row.fqn}`, focus: `relation:${row.fqn}` }}
          >
            <Icon name="lineage" /> Lineage
          </Link>
        </>
      }
    >
      <Tabs
        label="Parts of the relation"
        tabs={TABS}
        chosen={tab}
        onChoose={(next) => void navigate({ search: { tab: next }, replace: true })}
      >
        {tab === "columns" ? <Columns facts={data} /> : null}
        {tab === "sample" ? <Sample path={path} type={row.type ?? ""} /> : null}
        {tab === "queries" ? <Queries facts={data} /> : null}
        {tab === "definition" ? (
          <>
            <Ddl database={database} schema={schema} name={relation} />
            <Definition path={path} />
          </>
        ) : null}
        {tab === "grants" ? <Grants path={path} /> : null}
      </Tabs>
      {isInserting ? (
        <InsertDialog
          targets={[{ fqn: path, type: row.type ?? "" }]}
          onClose={() => setInserting(false)}
          onDone={() => setInserted(true)}
        />
      ) : null}
      {isDescribing ? (
        <DescribeDialog path={path} description={row.description} onClose={() => setDescribing(false)} />
      ) : null}
    </Page>
  );
}

function Columns({ facts }: { readonly facts: RelationFacts }) {
  const columns = [...facts.columns].sort((one, other) => Number(one.position) - Number(other.position));
  return (
    <DataTable
      label="Columns"
      rows={columns}
      keyOf={(column) => column.name ?? ""}
      columns={[
        { id: "position", title: "#", isNumber: true, cell: (column) => column.position },
        { id: "name", title: "Column", cell: (column) => <code>{column.name}</code> },
        { id: "type", title: "Type", cell: (column) => <code>{column.type}</code> },
        { id: "null", title: "NULL", cell: (column) => (column.nullable === "true" ? "may be" : "never") },
        {
          id: "key",
          title: "Key",
          cell: (column) => (column.isKey === "true" ? <span className="tag">primary key</span> : null),
        },
      ]}
    />
  );
}

function Queries({ facts }: { readonly facts: RelationFacts }) {
  const rows = [
    ...facts.writers.map((query) => ({ ...query, does: "writes it" })),
    ...facts.readers.map((query) => ({ ...query, does: "reads it" })),
  ];
  if (rows.length === 0) return <p className="empty-text">No query reads or writes this relation.</p>;
  return (
    <DataTable
      label="Queries"
      rows={rows}
      keyOf={(query) => `${query.does} ${query.id}`}
      columns={[
        {
          id: "name",
          title: "Query",
          cell: (query) => (
            <Link to="/queries/$id" params={{ id: query.id ?? "" }} className="name">
              {nameOf(query)}
            </Link>
          ),
        },
        { id: "does", title: "What it does", cell: (query) => query.does },
        { id: "state", title: "State", cell: (query) => <State state={query.state ?? ""} /> },
      ]}
    />
  );
}

/** The statement that creates the relation. */
function Ddl(props: { readonly database: string; readonly schema: string; readonly name: string }) {
  const { database, schema, name } = props;
  const { writeStatement } = useSession();
  const select = useMemo(() => relationDdl(database, schema, name), [database, schema, name]);
  const { data } = useAnswer(select);
  const [row] = data ?? [];
  if (row === undefined || row.statement === null) return null;
  const statement = row.statement.replace(/;?\s*$/, ";");
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard must be able to scroll a long statement. */}
      <pre className="viewer-value" tabIndex={0}>
        {statement}
      </pre>
      {row.note === null ? null : <p className="note">{row.note}</p>}
      <p className="cell-actions sample-actions">
        <button type="button" className="secondary" onClick={() => writeStatement(statement)}>
          <Icon name="write" /> Copy into the editor
        </button>
      </p>
    </>
  );
}

function Definition({ path }: { readonly path: string }) {
  const { data, failure } = useAnswer({
    statement: `DESCRIBE RELATION ${path};`,
    read: readProperties,
    relations: DESCRIBED,
  });
  return (
    <Loaded data={data} failure={failure}>
      {(properties) => (
        <dl className="facts wide-facts">
          {properties
            .filter((property) => property.value !== "")
            .map((property) => (
              <div key={property.name}>
                <dt>{property.name}</dt>
                <dd>{property.value}</dd>
              </div>
            ))}
        </dl>
      )}
    </Loaded>
  );
}

const readGrants = reader([
  "privilege",
  "kind",
  "name",
  "granteeKind",
  "grantee",
  "grantOption",
  "grantedBy",
]);

function Grants({ path }: { readonly path: string }) {
  const { data, failure } = useAnswer({
    statement: `LIST GRANTS ON RELATION ${path};`,
    read: readGrants,
    relations: GRANTED,
  });
  return (
    <Loaded data={data} failure={failure}>
      {(grants) => (
        <>
          <DataTable
            label="Grants"
            rows={grants}
            keyOf={(grant) => `${grant.privilege} ${grant.granteeKind} ${grant.grantee}`}
            columns={[
              { id: "privilege", title: "Privilege", cell: (grant) => <code>{grant.privilege}</code> },
              {
                id: "grantee",
                title: "Granted to",
                cell: (grant) => `${grant.granteeKind} ${grant.grantee}`,
              },
              {
                id: "option",
                title: "May grant it",
                cell: (grant) => (grant.grantOption === "true" ? "yes" : "no"),
              },
              { id: "by", title: "Granted by", from: "medium", cell: (grant) => grant.grantedBy ?? "–" },
            ]}
          />
          <p className="note">
            Roles that inherit one of these roles have the privileges too. Access to {readPath(path).at(-1)}{" "}
            also needs USAGE on its database and schema.
          </p>
        </>
      )}
    </Loaded>
  );
}
