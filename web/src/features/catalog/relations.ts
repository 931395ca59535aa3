/** Relations by schema; and everything about one relation, in one statement. */

import type { RelationRow, SchemaRow } from "../../catalog/lists";
import { combined, literal, selectFrom, system } from "../../data/select";
import { quotePath } from "../../sql/identifiers";

export interface SchemaGroup {
  readonly database: string;
  readonly schema: string;
  readonly relations: readonly RelationRow[];
}

/** The relations by schema, those without any relation too; with a filter, only the schemas that have a match. */
export function grouped(
  schemas: readonly SchemaRow[],
  relations: readonly RelationRow[],
  text: string,
  type: string | undefined,
): readonly SchemaGroup[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const isFiltered = words.length > 0 || type !== undefined;
  const matches = new Map<string, RelationRow[]>();
  const key = (database: string, schema: string) => JSON.stringify([database, schema]);
  for (const relation of relations) {
    const { databaseName, schemaName, name, description, entity, relationType } = relation;
    const names = `${databaseName}.${schemaName}.${name} ${description ?? ""} ${entity ?? ""}`.toLowerCase();
    if (type !== undefined && relationType !== type) continue;
    if (!words.every((word) => names.includes(word))) continue;
    const place = key(databaseName, schemaName);
    matches.set(place, [...(matches.get(place) ?? []), relation]);
  }
  return schemas
    .map(({ databaseName, name }) => ({
      database: databaseName,
      schema: name,
      relations: matches.get(key(databaseName, name)) ?? [],
    }))
    .filter((group) => !isFiltered || group.relations.length > 0)
    .sort((one, other) => `${one.database} ${one.schema}`.localeCompare(`${other.database} ${other.schema}`));
}

export function relationFacts(database: string, schema: string, name: string) {
  const place = `database_name = ${literal(database)} AND schema_name = ${literal(schema)}` as const;
  const fqn = literal(quotePath([database, schema, name]));
  const query = { id: "q.id", name: "q.name", sink: "q.sink_fqn", state: "q.current_state" };
  const queries = `FROM ${system("lineage")} AS l JOIN ${system("queries")} AS q`;
  return combined(
    {
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
    },
    ["relations", "relation_columns", "lineage", "queries"],
  );
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

export type RelationFacts = ReturnType<ReturnType<typeof relationFacts>["read"]>;

/** ALTER RELATION that replaces the description; an empty one is removed. */
export function describeStatement(path: string, text: string): string {
  const description = text.trim();
  return `ALTER RELATION ${path} SET description = ${description === "" ? "NULL" : literal(description)};`;
}
