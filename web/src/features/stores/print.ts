/** PRINT of an entity, the filter over the records that came, and the statement that writes one. */

import type { Column, Row } from "../../api/wire";
import { literal } from "../../data/select";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";

export type Start = "latest" | "earliest" | "newest" | "timestamp" | "offsets";

/** Formats of PRINT, each with its name in the page. */
export const FORMATS = { text: "text", base64: "base64", registry: "schema registry" } as const;
export type RecordFormat = keyof typeof FORMATS;

/** Number of the newest records without a limit. */
export const NEWEST = 100;

export interface PrintOptions {
  readonly start: Start;
  /** Local time of an input, for the start at a time. */
  readonly moment: string;
  /** Partition and offset, such as `0:1200, 1:980`, for the start at offsets. */
  readonly offsets: string;
  /** Text or condition that the server looks for; empty for all records. */
  readonly filter: string;
  /** Number of records after which the result ends; empty for no limit, or for `NEWEST` of the newest. */
  readonly limit: string;
  readonly keyFormat: RecordFormat;
  readonly valueFormat: RecordFormat;
}

/** PRINT from where the user wants; null if the time, the offsets or the limit is none. */
export function printStatement(
  store: string,
  path: readonly string[],
  { start, moment, offsets, filter, limit, keyFormat, valueFormat }: PrintOptions,
): string | null {
  if (!/^\s*\d*\s*$/.test(limit)) return null;
  const count = limit.trim() === "" ? null : Number(limit);
  const properties =
    start === "newest"
      ? [`${literal("print.newest")} = ${count ?? NEWEST}`]
      : [`${literal("starting.position")} = ${literal(start === "offsets" ? "earliest" : start)}`];
  if (start === "timestamp") {
    const time = Date.parse(moment);
    if (Number.isNaN(time)) return null;
    properties.push(`${literal("starting.position.timestamp")} = ${time}`);
  }
  if (start === "offsets") {
    if (!/^\s*\d+\s*:\s*\d+\s*(?:,\s*\d+\s*:\s*\d+\s*)*$/.test(offsets)) return null;
    properties.push(`${literal("starting.position.offsets")} = ${literal(offsets.trim())}`);
  }
  if (filter.trim() !== "") properties.push(`${literal("print.filter")} = ${literal(filter.trim())}`);
  if (count !== null && start !== "newest") properties.push(`${literal("print.limit")} = ${count}`);
  for (const [part, format] of Object.entries({ key: keyFormat, value: valueFormat }))
    if (format !== "text") properties.push(`${literal(`print.${part}.format`)} = ${literal(format)}`);
  return `PRINT ENTITY ${quotePath(path)} IN STORE ${quoteIdentifier(store)} WITH (${properties.join(", ")});`;
}

export interface RecordFilter {
  readonly text: string;
  readonly partition: string;
}

/** True for the records that a filter shows: all words in key or value, and the partition that the metadata begin with. */
export function recordFilter(columns: readonly Column[], filter: RecordFilter): (row: Row) => boolean {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const partition = filter.partition.trim();
  const metadata = columns.findIndex((column) => column.name === "metadata");
  return (row) => {
    const text = row
      .filter((_, index) => index !== metadata)
      .join(" ")
      .toLowerCase();
    const isOfPartition = partition === "" || (row[metadata] ?? "").startsWith(`partition ${partition},`);
    return isOfPartition && words.every((word) => text.includes(word));
  };
}

export interface NewRecord {
  readonly key: string;
  readonly value: string;
  /** Texts of the store's own properties of records, such as `headers`; empty ones are left out. */
  readonly properties: Readonly<Record<string, string>>;
}

/** INSERT INTO ENTITY of one record; null without a value. An empty key is none. */
export function insertStatement(store: string, path: readonly string[], record: NewRecord): string | null {
  if (record.value.trim() === "") return null;
  const given = Object.entries({ key: record.key, ...record.properties }).filter(([, text]) => text !== "");
  const properties = given.map(([name, text]) => `${literal(name)} = ${literal(text)}`);
  const rest = properties.length === 0 ? "" : ` WITH (${properties.join(", ")})`;
  return `INSERT INTO ENTITY ${quotePath(path)} IN STORE ${quoteIdentifier(store)} VALUE (${literal(record.value)})${rest};`;
}
