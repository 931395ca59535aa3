import { describe, expect, it } from "vitest";
import { readSqlFailure } from "../api/failures";
import {
  type Field,
  failedColumn,
  firstMode,
  inputOf,
  insertStatement,
  insertTemplate,
  type Mode,
  modesOf,
  problemOf,
  type TargetColumn,
} from "./insert-row";

const column = (name: string, type: string, part: Partial<TargetColumn> = {}): TargetColumn => ({
  ...{ name, type, isNullable: true, isKey: false },
  ...part,
});
const field = (text: string, mode: Mode = "value"): Field => ({ mode, text });
const value = (type: string, text: string, mode: Mode = "value") => {
  const draft = { path: "r", columns: [column("c", type)], fields: [field(text, mode)] };
  return insertStatement(draft)?.split("\n")[3]?.trim() ?? null;
};

describe("the value of a field", () => {
  it("is a constant of the column's type", () => {
    expect(value("VARCHAR(3)", " it's ")).toBe("' it''s '");
    expect(value("VARCHAR", "")).toBe("''");
    expect(value("BIGINT", " -9007199254740993 ")).toBe("-9007199254740993");
    expect(value("DECIMAL(5, 2)", "1.50")).toBe("1.50");
    expect(value("BOOLEAN", "false")).toBe("FALSE");
    expect(value("DATE", "2026-01-31")).toBe("DATE '2026-01-31'");
    expect(value("TIMESTAMP(3)", "2026-01-31T10:00")).toBe("TIMESTAMP '2026-01-31 10:00:00'");
    expect(value("TIMESTAMP", "2026-01-31T10:00:05.250")).toBe("TIMESTAMP '2026-01-31 10:00:05.250'");
    expect(value("TIMESTAMP_LTZ(3)", "2026-01-31T10:00:00Z")).toBe("TO_TIMESTAMP_LTZ(1769853600000, 3)");
    expect(value("BYTES", "00ff")).toBe("UNHEX('00ff')");
    expect(value("ARRAY<INTEGER>", "ARRAY[1, 2]", "sql")).toBe("ARRAY[1, 2]");
    expect(value("VARCHAR", "typed before", "null")).toBe("NULL");
  });

  it("is incomplete without a text, and wrong with one of another type", () => {
    for (const type of ["INTEGER", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "BYTES"])
      expect(value(type, " ")).toBeNull();
    expect(value("INTEGER", "1.5")).toBeNull();
    expect(value("INTEGER", "1); DROP STREAM r")).toBeNull();
    expect(value("DOUBLE", "one")).toBeNull();
    expect(value("INTEGER", "", "sql")).toBeNull();
    expect(problemOf(column("c", "INTEGER"), field("1.5"))).toContain("whole number");
    expect(problemOf(column("c", "DOUBLE"), field("1e5"))).toBeNull();
    expect(problemOf(column("c", "BYTES"), field("0"))).toContain("base 16");
    expect(problemOf(column("c", "INTEGER"), field(""))).toBeNull();
    expect(problemOf(column("c", "INTEGER"), field("1 + 1", "sql"))).toBeNull();
  });
});

describe("what a field may be", () => {
  it("depends on the column and on the kind of relation", () => {
    expect(modesOf(column("c", "BIGINT"), false)).toEqual(["value", "sql", "null"]);
    expect(modesOf(column("c", "BIGINT", { isNullable: false }), true)).toEqual(["value", "sql", "default"]);
    expect(modesOf(column("c", "BIGINT", { isNullable: false, isKey: true }), true)).toEqual([
      "value",
      "sql",
    ]);
    expect(modesOf(column("c", "STRUCT<a BIGINT>"), false)).toEqual(["sql", "null"]);
    expect(inputOf("MAP<VARCHAR, BIGINT>")).toBe("sql");
  });

  it("starts as NULL or the default where that is possible", () => {
    expect(firstMode(column("c", "BIGINT"), false)).toBe("null");
    expect(firstMode(column("c", "BIGINT"), true)).toBe("default");
    expect(firstMode(column("c", "BIGINT", { isNullable: false }), true)).toBe("value");
    expect(firstMode(column("c", "BIGINT", { isKey: true }), false)).toBe("value");
    expect(firstMode(column("c", "ARRAY<BIGINT>", { isNullable: false }), false)).toBe("sql");
  });
});

describe("the statement", () => {
  const columns = [column("id", "BIGINT"), column('n"', "VARCHAR"), column("at", "DATE")];
  const draft = (...fields: Field[]) => ({ path: '"a"."b"."c"', columns, fields });

  it("lists the columns that have no default", () => {
    expect(insertStatement(draft(field("1"), field("x"), field("", "default")))).toBe(
      'INSERT INTO "a"."b"."c" (\n  "id",\n  "n"""\n) VALUES (\n  1,\n  \'x\'\n);',
    );
    expect(
      insertStatement(draft(field("", "default"), field("", "default"), field("", "default"))),
    ).toBeNull();
    expect(insertStatement(draft(field(""), field("x"), field("", "default")))).toBeNull();
  });

  it("has a line for each value, by which an error names its column", () => {
    const given = draft(field("1"), field("two\nlines"), field("x", "sql"));
    const at = (line: number) => failedColumn(given, readSqlFailure("42804", `no, line ${line}, column 3`));
    expect([2, 3, 4].map(at)).toEqual(["id", 'n"', "at"]);
    expect([6, 7, 8, 9, 10].map(at)).toEqual(["id", 'n"', 'n"', "at", "at"]);
    expect([1, 5, 11].map(at)).toEqual([null, null, null]);
  });

  it("finds the column by the words of an error without a place", () => {
    const given = draft(field("1"), field("x"), field("", "default"));
    const named = (text: string) => failedColumn(given, readSqlFailure("22000", text));
    expect(named('null value in column "at" of relation "c" violates not-null constraint')).toBe("at");
    expect(named("the column id of the sink is NOT NULL")).toBe("id");
    expect(named('the column "n""" is too long')).toBe('n"');
    expect(named("the column other is wrong")).toBeNull();
    expect(named("the store is away")).toBeNull();
  });

  it("has a template with a place for each value", () => {
    expect(insertTemplate("a.b.c", [column("at", "TIMESTAMP(3)"), column('n"', "BIGINT")])).toBe(
      'INSERT INTO a.b.c ("at", "n""")\nVALUES (NULL /* TIMESTAMP(3) */, NULL /* BIGINT */);',
    );
  });
});
