/** Statements about an entity: a relation over it with inferred columns, a new entity, its end. */

import type { ResultSet } from "../../api/statements";
import type { PropertyFacts } from "../../api/wire";
import { literal } from "../../data/select";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";

export const FORMATS = ["JSON", "CSV", "AVRO", "PROTOBUF"] as const;
export type Format = (typeof FORMATS)[number];
export type Kind = "STREAM" | "CHANGELOG";

export interface RelationDraft {
  readonly kind: Kind;
  /** A name, or a dotted path of names without quotes. */
  readonly name: string;
  readonly store: string;
  readonly path: readonly string[];
  readonly format: Format;
}

export interface InferredColumn {
  readonly name: string;
  readonly type: string;
  readonly isNullable: boolean;
  readonly isKey: boolean;
}

/**
 * The statement whose answer has the columns of an entity; null without a name.
 *
 * A stream is generated as a whole. A changelog needs a key, which no sample shows, so that only its columns are generated.
 */
export function inferStatement(draft: RelationDraft): string | null {
  const name = quotedName(draft);
  if (name === null) return null;
  return draft.kind === "STREAM"
    ? `GENERATE STREAM DDL ${name} WITH (${properties(draft)});`
    : `GENERATE COLUMNS WITH (${properties(draft)});`;
}

export function readDdl(result: ResultSet): string {
  return result.rows[0]?.[0] ?? "";
}

/** The rows of GENERATE COLUMNS. */
export function readColumns(result: ResultSet): readonly InferredColumn[] {
  return result.rows.map(([name, type, isNullable, isKey]) => ({
    name: name ?? "",
    type: type ?? "",
    isNullable: isNullable === "true",
    isKey: isKey === "true",
  }));
}

/** CREATE CHANGELOG over an entity; null without a name or a key. */
export function changelogStatement(
  draft: RelationDraft,
  columns: readonly InferredColumn[],
  key: readonly string[],
): string | null {
  const name = quotedName(draft);
  if (name === null || key.length === 0) return null;
  const lines = columns.map(
    (column) => `${quoteIdentifier(column.name)} ${column.type}${column.isNullable ? "" : " NOT NULL"}`,
  );
  lines.push(`PRIMARY KEY (${key.map(quoteIdentifier).join(", ")})`);
  return `CREATE CHANGELOG ${name} (\n  ${lines.join(",\n  ")}\n) WITH (${properties(draft)});`;
}

function quotedName({ name }: RelationDraft): string | null {
  const parts = name.split(".").map((part) => part.trim());
  return parts.includes("") ? null : quotePath(parts);
}

function properties({ store, path, format }: RelationDraft): string {
  return Object.entries({ store, topic: path.at(-1) ?? "", "value.format": format })
    .map(([property, value]) => `${literal(property)} = ${literal(value)}`)
    .join(", ");
}

/** A name for the relation over an entity that needs no quotes. */
export function relationName(entity: string): string {
  const name = entity
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, "_")
    .replace(/^_+|_+$/g, "");
  return /^[a-z]/.test(name) ? name : `e_${name}`;
}

/** True if relations over the entities of a store have a topic, whose columns the server can infer. */
export function hasTopics(properties: readonly PropertyFacts[]): boolean {
  return properties.some(({ name, statements }) => name === "topic" && statements.includes("CREATE STREAM"));
}

/** True if the entities of a store are tables, whose names have several parts. A topic's name is one, dots included. */
export function hasTables(properties: readonly PropertyFacts[]): boolean {
  return properties.some(({ name }) => name.endsWith(".columns"));
}

/** CREATE ENTITY with the properties that are not empty; null if a part of the name is missing. */
export function createEntityStatement(
  store: string,
  name: string,
  isTable: boolean,
  values: Readonly<Record<string, string>>,
): string | null {
  const path = (isTable ? name.split(".") : [name]).map((part) => part.trim());
  if (path.includes("")) return null;
  const given = Object.entries(values).filter(([, value]) => value.trim() !== "");
  const list = given.map(([property, value]) => `${literal(property)} = ${literal(value.trim())}`);
  const properties = list.length === 0 ? "" : ` WITH (${list.join(", ")})`;
  return `CREATE ENTITY ${quotePath(path)} IN STORE ${quoteIdentifier(store)}${properties};`;
}

export function dropEntityStatement(store: string, path: readonly string[]): string {
  return `DROP ENTITY ${quotePath(path)} IN STORE ${quoteIdentifier(store)};`;
}
