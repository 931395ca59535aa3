/** Statements about an entity: a stream over it with inferred columns, a new entity, its end. */

import type { ResultSet } from "../../api/statements";
import type { PropertyFacts } from "../../api/wire";
import { literal } from "../../data/select";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";

export const FORMATS = ["JSON", "CSV", "AVRO", "PROTOBUF"] as const;
export type Format = (typeof FORMATS)[number];

export interface StreamDraft {
  /** A name, or a dotted path of names without quotes. */
  readonly name: string;
  readonly store: string;
  readonly path: readonly string[];
  readonly format: Format;
}

/** GENERATE DDL of a stream over an entity; null without a name. */
export function generateStatement({ name, store, path, format }: StreamDraft): string | null {
  const parts = name.split(".").map((part) => part.trim());
  if (parts.some((part) => part === "")) return null;
  const properties = { store, topic: path.at(-1) ?? "", "value.format": format };
  const list = Object.entries(properties).map(
    ([property, value]) => `${literal(property)} = ${literal(value)}`,
  );
  return `GENERATE STREAM DDL ${quotePath(parts)} WITH (${list.join(", ")});`;
}

export function readDdl(result: ResultSet): string {
  return result.rows[0]?.[0] ?? "";
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
