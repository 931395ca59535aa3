import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useAnswer } from "../../data/use-answer";
import { countText } from "../../grid/values";
import { DataTable, type TableColumn } from "../../ui/data-table";
import { Empty } from "../../ui/empty";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";
import { Page, Skeletons } from "../../ui/page";
import { RelationType } from "../../ui/relation-type";
import { CATALOG, grouped, type RelationRow } from "./relations";

const route = getRouteApi("/catalog");

export function CatalogPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data, failure } = useAnswer(CATALOG);
  const groups = useMemo(
    () => (data === null ? [] : grouped(data, search.text ?? "", search.type)),
    [data, search.text, search.type],
  );
  const types = [...new Set(data?.relations.map((relation) => relation.type ?? ""))].sort();
  const change = (part: { readonly text?: string; readonly type?: string }) =>
    void navigate({
      search: (before) =>
        Object.fromEntries(Object.entries({ ...before, ...part }).filter(([, value]) => value !== "")),
      replace: true,
    });

  return (
    <Page
      title="Catalog"
      facts={
        data === null ? null : (
          <p className="page-facts">
            <span>{countText(new Set(data.schemas.map((schema) => schema.database)).size, "database")}</span>
            <span>{countText(data.schemas.length, "schema")}</span>
            <span>{countText(data.relations.length, "relation")}</span>
          </p>
        )
      }
    >
      <search className="filters" aria-label="Filter">
        <label className="search-box">
          <Icon name="search" />
          <span className="hidden">Search by name, entity or description</span>
          <input
            type="search"
            placeholder="Name, entity or description"
            value={search.text ?? ""}
            onChange={(event) => change({ text: event.target.value })}
          />
        </label>
        <label className="choice">
          <span>Type</span>
          <select value={search.type ?? ""} onChange={(event) => change({ type: event.target.value })}>
            <option value="">all</option>
            {types.map((type) => (
              <option key={type} value={type}>
                {type.replaceAll("_", " ")}
              </option>
            ))}
          </select>
        </label>
      </search>
      <FailureNote failure={failure} />
      {data === null ? (
        failure === null ? (
          <Skeletons />
        ) : null
      ) : groups.length === 0 ? (
        <Empty title={data.schemas.length === 0 ? "No database yet" : "Nothing matches"}>
          {data.schemas.length === 0 ? (
            <>
              Relations live in databases. <Link to="/">Add one in the workspace</Link> with{" "}
              <code>CREATE DATABASE</code>.
            </>
          ) : (
            <Link to="/catalog">Show all relations</Link>
          )}
        </Empty>
      ) : (
        groups.map((group) => (
          <section key={`${group.database}.${group.schema}`}>
            <h2>
              {group.database}.{group.schema}
            </h2>
            {group.relations.length === 0 ? (
              <p className="note">No relations.</p>
            ) : (
              <DataTable
                label={`Relations of ${group.database}.${group.schema}`}
                rows={group.relations}
                columns={COLUMNS}
                keyOf={(relation) => relation.name ?? ""}
              />
            )}
          </section>
        ))
      )}
    </Page>
  );
}

const COLUMNS: readonly TableColumn<RelationRow>[] = [
  {
    id: "name",
    title: "Relation",
    cell: (relation) => (
      <div className="named">
        <Link
          to="/catalog/$database/$schema/$relation"
          params={{
            database: relation.database ?? "",
            schema: relation.schema ?? "",
            relation: relation.name ?? "",
          }}
          className="name"
        >
          {relation.name}
        </Link>
        {relation.description === null ? null : <p className="note">{relation.description}</p>}
      </div>
    ),
  },
  { id: "type", title: "Type", cell: (relation) => <RelationType type={relation.type ?? ""} /> },
  { id: "store", title: "Store", from: "medium", cell: (relation) => relation.store ?? "–" },
  { id: "entity", title: "Entity", from: "wide", cell: (relation) => relation.entity ?? "–" },
  { id: "owner", title: "Owner", from: "medium", cell: (relation) => relation.owner },
];
