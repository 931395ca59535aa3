import { describe, expect, it } from "vitest";
import { readAnswer, UnreadableAnswer } from "./wire";

describe("readAnswer", () => {
  it("reads rows, context and the offer of a stream", () => {
    const answer = readAnswer({
      sqlState: "00000",
      statementID: "6f3c",
      data: [["1", null]],
      metadata: {
        columns: [{ name: "id", type: "BIGINT", nullable: true }],
        partitionInfo: [{ rowCount: 1 }, { rowCount: 4 }],
        context: { organizationID: "o", databaseName: "web", storeName: "" },
        dataplaneRequest: { token: "t", uri: "http://host/x", statementID: "6f3c", requestType: "streaming" },
      },
    });
    expect(answer.rows).toEqual([["1", null]]);
    expect(answer.partitionCount).toBe(2);
    expect(answer.context).toEqual({ organization: "o", database: "web" });
    expect(answer.dataplane?.requestType).toBe("streaming");
  });

  it("reads an error without metadata and a 202 without rows", () => {
    expect(readAnswer({ sqlState: "42601", message: "no" })).toMatchObject({
      message: "no",
      rows: [],
      context: null,
    });
    expect(readAnswer({ sqlState: "03000", statementID: "6f3c" }).dataplane).toBeNull();
  });

  it("refuses what is no answer", () => {
    for (const body of [null, "text", [], { detail: "Not Found" }]) {
      expect(() => readAnswer(body)).toThrow(UnreadableAnswer);
    }
  });
});
