/** Answers of LIST and DESCRIBE statements, read by column name. */

import type { ResultSet } from "../api/statements";
import { readPath } from "../sql/identifiers";

export interface EntityItem {
  readonly path: readonly string[];
  readonly isLeaf: boolean;
}

export interface PropertyItem {
  readonly name: string;
  readonly value: string;
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

export function readNames(result: ResultSet): readonly string[] {
  return readers(result).map((read) => readPath(read("name")).at(-1) ?? "");
}

export function readEntities(result: ResultSet, parent: readonly string[]): readonly EntityItem[] {
  return readers(result).map((read) => ({
    path: [...parent, readPath(read("name")).at(-1) ?? ""],
    isLeaf: read("isleaf").toLowerCase() !== "false",
  }));
}

/** The rows of a DESCRIBE, which has the columns Property and Value. */
export function readProperties(result: ResultSet): readonly PropertyItem[] {
  return readers(result).map((read) => ({ name: read("property"), value: read("value") }));
}
