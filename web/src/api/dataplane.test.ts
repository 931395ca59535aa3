import { describe, expect, it } from "vitest";
import { readFrames } from "./dataplane";

const frame = (body: unknown) => readFrames(JSON.stringify(body))[0];

describe("readFrames", () => {
  it("reads columns, rows and NULL", () => {
    expect(frame({ type: "metadata", columns: [{ name: "id", type: "BIGINT", nullable: false }] })).toEqual({
      kind: "columns",
      columns: [{ name: "id", type: "BIGINT", nullable: false }],
    });
    expect(frame({ type: "data", headers: {}, data: ["1", null] })).toEqual({
      kind: "row",
      row: ["1", null],
    });
  });

  it("reads a row in each line", () => {
    const rows = [
      ["1", "a\nb"],
      ["2", null],
    ].map((data) => JSON.stringify({ type: "data", headers: {}, data }));
    expect(readFrames(rows.join("\n"))).toEqual([
      { kind: "row", row: ["1", "a\nb"] },
      { kind: "row", row: ["2", null] },
    ]);
  });

  it("puts what a changelog's row does before its cells", () => {
    const headers = { relationType: "CHANGELOG", primaryKey: '["id"]' };
    expect(frame({ type: "metadata", headers, columns: [{ name: "id", type: "BIGINT" }] })).toMatchObject({
      columns: [
        { name: "op", isOp: true },
        { name: "id", isKey: true },
      ],
    });
    const rows = ["+I", "+U", "-D"].map((op) => frame({ type: "data", headers: { op }, data: ["1"] }));
    expect(rows).toMatchObject([
      { row: ["insert", "1"] },
      { row: ["update", "1"] },
      { row: ["delete", "1"] },
    ]);
  });

  it("reads an error in each of its forms", () => {
    const forms = [
      { type: "error", message: "no", sqlCode: "57014" },
      { type: "error", message: "no", sql_code: "57014" },
      { type: "error", error: { message: "no", sqlCode: "57014" } },
    ];
    for (const form of forms) {
      expect(frame(form)).toMatchObject({ kind: "failure", failure: { sqlState: "57014", message: "no" } });
    }
  });

  it("passes over what it does not know", () => {
    expect(frame({ type: "heartbeat" })).toEqual({ kind: "unknown" });
    expect(readFrames("not json")).toEqual([{ kind: "unknown" }]);
    expect(readFrames(new ArrayBuffer(2))).toEqual([{ kind: "unknown" }]);
  });
});
