import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { RELATIONS, type RelationRow, SCHEMAS } from "../../catalog/lists";
import { failureIn } from "../../data/answers";
import { useList } from "../../data/use-list";
import { countText } from "../../grid/values";
import { DataTable, type TableColumn } from "../../ui/data-table";
import { Empty } from "../../ui/empty";
import { Loaded } from "../../ui/loaded";
import { Page } from "../../ui/page";
import { RelationType } from "../../ui/relation-type";
import { SearchBox } from "../../ui/search-box";
import { grouped } from "./relations";

const route = getRouteApi("/catalog");

export function CatalogPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const schemaList = useList(SCHEMAS, {});
  const relationList = useList(RELATIONS, {});
  const failure = failureIn([schemaList, relationList]);
  const [schemas, relations] = [schemaList.data, relationList.data];
  const groups = useMemo(
    () => (schemas && relations ? grouped(schemas, relations, search.text ?? "", search.type) : null),
    [schemas, relations, search.text, search.type],
  );
  const types = [...new Set(relations?.map((relation) => relation.relationType))].sort();
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
        schemas === null || relations === null ? null : (
          <p className="page-facts">
            <span>{countText(new Set(schemas.map((schema) => schema.databaseName)).size, "database")}</span>
            <span>{countText(schemas.length, "schema")}</span>
            <span>{countText(relations.length, "relation")}</span>
          </p>
        )
      }
    >
      <search className="filters" aria-label="Filter">
        <SearchBox
          label="Search by name, entity or description"
          placeholder="Name, entity or description"
          value={search.text ?? ""}
          onChange={(text) => change({ text })}
        />
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
      <Loaded data={groups} failure={failure}>
        {(groups) =>
          groups.length === 0 ? (
            <Empty title={schemas?.length === 0 ? "No database yet" : "Nothing matches"}>
              {schemas?.length === 0 ? (
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
                    keyOf={(relation) => relation.name}
                  />
                )}
              </section>
            ))
          )
        }
      </Loaded>
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
            database: relation.databaseName,
            schema: relation.schemaName,
            relation: relation.name,
          }}
          className="name"
        >
          {relation.name}
        </Link>
        {relation.description === null ? null : <p className="note">{relation.description}</p>}
      </div>
    ),
  },
  { id: "type", title: "Type", cell: (relation) => <RelationType type={relation.relationType} /> },
  { id: "store", title: "Store", from: "medium", cell: (relation) => relation.storeName ?? "–" },
  { id: "entity", title: "Entity", from: "wide", cell: (relation) => relation.entity ?? "–" },
  { id: "owner", title: "Owner", from: "medium", cell: (relation) => relation.owner },
];
