/** Databases, schemas and relations, in one statement; and everything about one relation, in another. */

import { combined, literal, selectFrom, system } from "../../data/select";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";

export const CATALOG = combined({
  schemas: {
    columns: { database: "database_name", name: "name", owner: '"owner"' },
    from: `FROM ${system("schemas")}`,
  },
  relations: {
    columns: {
      database: "database_name",
      schema: "schema_name",
      name: "name",
      type: "relation_type",
      state: '"state"',
      owner: '"owner"',
      store: "store_name",
      entity: "entity",
      description: "description",
      updated: "updated_at",
    },
    from: `FROM ${system("relations")}`,
  },
});

export type CatalogFacts = ReturnType<typeof CATALOG.read>;
export type RelationRow = CatalogFacts["relations"][number];

export interface SchemaGroup {
  readonly database: string;
  readonly schema: string;
  readonly relations: readonly RelationRow[];
}

/** The relations by schema, those without any relation too; with a filter, only the schemas that have a match. */
export function grouped(facts: CatalogFacts, text: string, type: string | undefined): readonly SchemaGroup[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const isFiltered = words.length > 0 || type !== undefined;
  const groups = facts.schemas.map((schema) => ({
    database: schema.database ?? "",
    schema: schema.name ?? "",
    relations: facts.relations.filter((relation) => {
      const path = `${relation.database}.${relation.schema}.${relation.name}`;
      const names = `${path} ${relation.description ?? ""} ${relation.entity ?? ""}`.toLowerCase();
      return (
        relation.database === schema.database &&
        relation.schema === schema.name &&
        (type === undefined || relation.type === type) &&
        words.every((word) => names.includes(word))
      );
    }),
  }));
  const key = (group: SchemaGroup) => `${group.database} ${group.schema}`;
  return groups
    .filter((group) => !isFiltered || group.relations.length > 0)
    .sort((one, other) => key(one).localeCompare(key(other)));
}

export function relationFacts(database: string, schema: string, name: string) {
  const place = `database_name = ${literal(database)} AND schema_name = ${literal(schema)}` as const;
  const fqn = literal(quotePath([database, schema, name]));
  const query = { id: "q.id", name: "q.name", sink: "q.sink_fqn", state: "q.current_state" };
  const queries = `FROM ${system("lineage")} AS l JOIN ${system("queries")} AS q`;
  return combined({
    relations: {
      columns: {
        fqn: "fqn",
        type: "relation_type",
        key: "primary_key",
        state: '"state"',
        owner: '"owner"',
        store: "store_name",
        entity: "entity",
        description: "description",
        created: "created_at",
        updated: "updated_at",
      },
      from: `FROM ${system("relations")} WHERE ${place} AND name = ${literal(name)}`,
    },
    columns: {
      columns: {
        position: '"position"',
        name: "name",
        type: '"type"',
        nullable: "nullable",
        isKey: "is_primary_key",
      },
      from: `FROM ${system("relation_columns")} WHERE ${place} AND relation_name = ${literal(name)}`,
    },
    readers: {
      columns: query,
      from: `${queries} ON l.target = q.id WHERE l.source_kind = 'relation' AND l.source = ${fqn}`,
    },
    writers: {
      columns: query,
      from: `${queries} ON l.source = q.id WHERE l.target_kind = 'relation' AND l.target = ${fqn}`,
    },
  });
}

/** The statement that creates a relation, as `headrace export` writes it. */
export function relationDdl(database: string, schema: string, name: string) {
  const place = `database_name = ${literal(database)} AND schema_name = ${literal(schema)}`;
  const kinds = "kind NOT IN ('query', 'store', 'schema')";
  return selectFrom(
    "definitions",
    ["statement", "note"],
    `WHERE ${place} AND name = ${literal(name)} AND ${kinds}`,
  );
}

/** INSERT INTO with a place for the value of each column. */
export function insertTemplate(path: string, columns: RelationFacts["columns"]): string {
  const sorted = [...columns].sort((one, other) => Number(one.position) - Number(other.position));
  const names = sorted.map((column) => quoteIdentifier(column.name ?? "")).join(", ");
  const values = sorted.map((column) => `NULL /* ${(column.type ?? "").replaceAll("*/", "")} */`).join(", ");
  return `INSERT INTO ${path} (${names})\nVALUES (${values});`;
}

export type RelationFacts = ReturnType<ReturnType<typeof relationFacts>["read"]>;
