import { describe, expect, it } from "vitest";
import { insertStatement, printStatement, recordFilter } from "./print";

const ALL = {
  moment: "",
  offsets: "",
  filter: "",
  limit: "",
  keyFormat: "text",
  valueFormat: "text",
} as const;

describe("printStatement", () => {
  it("quotes names, and starts now, at the first record or at a time", () => {
    const options = { ...ALL, start: "latest" } as const;
    expect(printStatement('k"', ["a.b"], options)).toBe(
      `PRINT ENTITY "a.b" IN STORE "k""" WITH ('starting.position' = 'latest');`,
    );
    const at = printStatement("k", ["db", "t"], {
      ...options,
      start: "timestamp",
      moment: "2026-11-28T08:00",
    });
    expect(at).toContain(`"db"."t"`);
    expect(at).toContain(`'starting.position.timestamp' = ${Date.parse("2026-11-28T08:00")}`);
    expect(printStatement("k", ["t"], { ...options, start: "timestamp" })).toBeNull();
  });

  it("starts at offsets, and lets the server filter and count", () => {
    const options = {
      ...ALL,
      start: "offsets",
      offsets: " 0:12, 1:9 ",
      filter: " it's ",
      limit: "10",
    } as const;
    expect(printStatement("k", ["t"], options)).toBe(
      `PRINT ENTITY "t" IN STORE "k" WITH ('starting.position' = 'earliest', 'starting.position.offsets' = '0:12, 1:9', 'print.filter' = 'it''s', 'print.limit' = 10);`,
    );
    expect(printStatement("k", ["t"], { ...options, offsets: "12" })).toBeNull();
    expect(printStatement("k", ["t"], { ...options, limit: "1) x" })).toBeNull();
  });

  it("counts back from the newest records, and decodes by a schema registry", () => {
    const options = { ...ALL, start: "newest", valueFormat: "registry" } as const;
    expect(printStatement("k", ["t"], options)).toBe(
      `PRINT ENTITY "t" IN STORE "k" WITH ('print.newest' = 100, 'print.value.format' = 'registry');`,
    );
    expect(printStatement("k", ["t"], { ...options, limit: "5", keyFormat: "base64" })).toBe(
      `PRINT ENTITY "t" IN STORE "k" WITH ('print.newest' = 5, 'print.key.format' = 'base64', 'print.value.format' = 'registry');`,
    );
  });
});

describe("recordFilter", () => {
  const columns = ["key", "value", "metadata"].map((name) => ({ name, type: "VARCHAR", nullable: true }));
  const row = ["k1", '{"Item": "lamp"}', "partition 2, offset 10, timestamp 2"];
  const shows = (text: string, partition: string) => recordFilter(columns, { text, partition })(row);

  it("compares words with key and value, and the partition with the metadata", () => {
    expect([shows("", ""), shows("ITEM k1", ""), shows("chair", "")]).toEqual([true, true, false]);
    expect([shows("", "2"), shows("", "1"), shows("offset", "")]).toEqual([true, false, false]);
  });
});

describe("insertStatement", () => {
  it("quotes what is typed, and leaves out what is empty", () => {
    expect(
      insertStatement("k", ["a.b"], { key: "", value: `{"a": "it's"}`, properties: { headers: "" } }),
    ).toBe(`INSERT INTO ENTITY "a.b" IN STORE "k" VALUE ('{"a": "it''s"}');`);
    const record = { key: "u'1", value: "1", properties: { partition: "2", headers: `{"x": "y"}` } };
    expect(insertStatement("k", ["t"], record)).toContain(
      `VALUE ('1') WITH ('key' = 'u''1', 'partition' = '2', 'headers' = '{"x": "y"}');`,
    );
    expect(insertStatement("k", ["t"], { ...record, value: " " })).toBeNull();
  });
});
