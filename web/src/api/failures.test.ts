import { describe, expect, it } from "vitest";
import { readSqlFailure } from "./failures";

describe("readSqlFailure", () => {
  it("takes message, position and hint apart", () => {
    const failure = readSqlFailure(
      "42703",
      'Column "wrong" does not exist at line 2, column 3\nHint: Did you mean "userid"?',
    );
    expect(failure).toEqual({
      kind: "sql",
      sqlState: "42703",
      message: 'Column "wrong" does not exist',
      details: [],
      hint: 'Did you mean "userid"?',
      position: { line: 2, column: 3 },
    });
  });

  it("finds a position on any line and in any writing", () => {
    expect(readSqlFailure("42601", "Unexpected )\n  LINE 12 , Column 7").position).toEqual({
      line: 12,
      column: 7,
    });
    expect(readSqlFailure("42601", "Unexpected ) (line 1, column 4)").message).toBe("Unexpected )");
    expect(readSqlFailure("42601", "at line 3, col 9: unexpected )").position).toEqual({
      line: 3,
      column: 9,
    });
  });

  it("keeps further lines as details and joins a hint of several lines", () => {
    const failure = readSqlFailure("22P02", "Bad record\npartition 0\noffset 41\nhint: skip it\nor fix it");
    expect(failure.details).toEqual(["partition 0", "offset 41"]);
    expect(failure.hint).toBe("skip it or fix it");
  });

  it("omits a position that is not possible", () => {
    expect(readSqlFailure("XX000", "Failed at line 0, column 5").position).toBeNull();
    expect(readSqlFailure("XX000", "Waiting in line for 3 columns").position).toBeNull();
  });

  it("shows a default message when the server sends none", () => {
    expect(readSqlFailure("XX000", "").message).toBe("The statement failed with SQLSTATE XX000.");
  });
});
