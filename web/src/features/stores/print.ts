/** PRINT of an entity, and the filter over the records that came. */

import type { Column, Row } from "../../api/wire";
import { literal } from "../../data/select";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";

export type Start = "latest" | "earliest" | "timestamp";

/** `moment` is the local time of an input, for the start at a time; null if it is none. */
export function printStatement(
  store: string,
  path: readonly string[],
  start: Start,
  moment: string,
): string | null {
  const properties = [`${literal("starting.position")} = ${literal(start)}`];
  if (start === "timestamp") {
    const time = Date.parse(moment);
    if (Number.isNaN(time)) return null;
    properties.push(`${literal("starting.position.timestamp")} = ${time}`);
  }
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
