import { describe, expect, it } from "vitest";
import { quotePath, readPath } from "./identifiers";

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
