import { describe, expect, it } from "vitest";
import { changesCatalog, quotePath, readPath, terminateStatement } from "./identifiers";

describe("names", () => {
  it("are quoted with their quotes doubled", () => {
    expect(quotePath(["web", 'odd"name'])).toBe('"web"."odd""name"');
  });

  it("are read as paths only when they are quoted", () => {
    expect(readPath('"web"."public"."a.b"')).toEqual(["web", "public", "a.b"]);
    expect(readPath('`it``s`."x""y".plain')).toEqual(["it`s", 'x"y', "plain"]);
    expect(readPath("orders.v2")).toEqual(["orders.v2"]);
    expect(readPath('"broken')).toEqual(['"broken']);
  });

  it("survive being written and read", () => {
    for (const path of [["a"], ["a", "b.c"], ['q"', "Store-东西", "`"]]) {
      expect(readPath(quotePath(path))).toEqual(path);
    }
  });
});

describe("terminateStatement", () => {
  it("writes an id bare and anything else as an identifier", () => {
    const id = "6f3c1f0e-9a5b-4a57-8d0a-0d7f3a1b2c3d";
    expect(terminateStatement(id)).toBe(`TERMINATE QUERY ${id};`);
    expect(terminateStatement('q"; DROP STORE s')).toBe('TERMINATE QUERY "q""; DROP STORE s";');
  });
});

describe("changesCatalog", () => {
  it("distinguishes statements that write from statements that read", () => {
    expect(changesCatalog("  create stream s AS SELECT 1;")).toBe(true);
    expect(changesCatalog("SELECT created FROM s;")).toBe(false);
    expect(changesCatalog("LIST STORES;")).toBe(false);
  });
});
