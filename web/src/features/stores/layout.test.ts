import { describe, expect, it } from "vitest";
import { readPartitions, readSettings } from "./layout";

const columnsOf = (...names: readonly string[]) =>
  names.map((name) => ({ name, type: "VARCHAR", nullable: true }));

describe("readPartitions", () => {
  it("reads positions, and what the store reports beside", () => {
    const rows = [
      ["0", "5", "12", "7", '{"leader": 1, "replicas": [1, 2], "in_sync": []}'],
      ["1", "49", null, null, '{"leader": null}'],
    ];
    const columns = columnsOf("Partition", "Start", "End", "Records", "Details");
    expect(readPartitions({ kind: "result", columns, rows } as never)).toEqual([
      {
        number: 0,
        start: "5",
        end: "12",
        records: 7,
        details: { leader: "1", replicas: "1, 2", in_sync: "" },
      },
      { number: 1, start: "49", end: null, records: null, details: { leader: "" } },
    ]);
  });
});

describe("readSettings", () => {
  it("shows the layout, and the settings of the JSON", () => {
    const columns = columnsOf(
      "Name",
      "Store",
      "Partitions",
      "Replicas",
      "KeyDescriptor",
      "ValueDescriptor",
      "Configs",
    );
    const rows = [["t", "k", "3", null, null, null, '{"retention.ms": "1000", "columns": {"a": "INT"}}']];
    expect(readSettings({ kind: "result", columns, rows } as never)).toEqual([
      ["partitions", "3"],
      ["retention.ms", "1000"],
      ["columns", '{"a":"INT"}'],
    ]);
  });
});
