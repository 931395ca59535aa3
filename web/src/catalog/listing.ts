/** Items of the side panel, read from the answers of LIST statements by column name. */

import type { ResultSet } from "../api/statements";
import { readPath } from "../sql/identifiers";

export interface StoreItem {
  readonly name: string;
  readonly type: string;
  readonly state: string;
}

export interface EntityItem {
  readonly path: readonly string[];
  readonly isLeaf: boolean;
}

export interface RelationItem {
  /** Path of one to three parts, as the server names it. */
  readonly path: readonly string[];
  readonly type: string;
  readonly state: string;
}

export interface ColumnItem {
  readonly name: string;
  readonly type: string;
}

export interface PropertyItem {
  readonly name: string;
  readonly value: string;
}

export interface QueryItem {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  readonly intendedState: string;
  readonly sql: string;
  /** The relations that it writes, by their full names. */
  readonly sink: string;
  /** Reason of its end, or of its waiting. */
  readonly message: string;
}

export interface PoolItem {
  readonly name: string;
  readonly size: string;
  readonly state: string;
  readonly intendedState: string;
  /** Error of its process. */
  readonly message: string;
}

type Reader = (name: string) => string;

/** Column names are compared without case, blanks and underscores; the first column stands in for a missing name. */
function readers(result: ResultSet): readonly Reader[] {
  const places = new Map(result.columns.map((column, index) => [canonical(column.name), index]));
  return result.rows.map((row) => (name: string) => {
    const place = places.get(name) ?? (name === "name" ? 0 : undefined);
    return place === undefined ? "" : (row[place] ?? "");
  });
}

function canonical(name: string): string {
  return name.toLowerCase().replace(/[\s_]/g, "");
}

export function readStores(result: ResultSet): readonly StoreItem[] {
  return readers(result).map((read) => ({
    name: read("name"),
    type: read("type"),
    state: stateOf(read("state")),
  }));
}

export function readNames(result: ResultSet): readonly string[] {
  return readers(result).map((read) => readPath(read("name")).at(-1) ?? "");
}

export function readEntities(result: ResultSet, parent: readonly string[]): readonly EntityItem[] {
  return readers(result).map((read) => ({
    path: [...parent, readPath(read("name")).at(-1) ?? ""],
    isLeaf: read("isleaf").toLowerCase() !== "false",
  }));
}

export function readRelations(result: ResultSet): readonly RelationItem[] {
  return readers(result).map((read) => ({
    path: [...prefix(read), ...readPath(read("name"))].slice(-3),
    type: read("type").toLowerCase().replaceAll("_", " "),
    state: stateOf(read("state")),
  }));
}

export function readColumnItems(result: ResultSet): readonly ColumnItem[] {
  return readers(result).map((read) => ({ name: readPath(read("name")).at(-1) ?? "", type: read("type") }));
}

/** The rows of a DESCRIBE, which has the columns Property and Value. */
export function readProperties(result: ResultSet): readonly PropertyItem[] {
  return readers(result).map((read) => ({ name: read("property"), value: read("value") }));
}

/** Database and schema, where the answer has columns for them. */
function prefix(read: Reader): readonly string[] {
  const schema = read("schema") || read("schemaname");
  const database = read("database") || read("databasename");
  return schema === "" ? [] : database === "" ? [schema] : [database, schema];
}

function stateOf(text: string): string {
  return text.trim().toLowerCase().replaceAll(" ", "_");
}
