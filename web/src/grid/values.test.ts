import { describe, expect, it } from "vitest";
import { countText, durationText, kindOfType, shownCell, wholeValue } from "./values";

describe("shownCell", () => {
  it("distinguishes NULL, the empty string and text", () => {
    expect(shownCell(null)).toEqual({ kind: "null" });
    expect(shownCell("")).toEqual({ kind: "empty" });
    expect(shownCell("NULL")).toEqual({ kind: "value", text: "NULL", isCut: false });
  });

  it("keeps a value on one line and shows its breaks", () => {
    expect(shownCell("a\nb\tc\r\nd")).toMatchObject({ text: "a↵b⇥c↵d" });
  });

  it("cuts very long values", () => {
    const shown = shownCell("x".repeat(100_000));
    expect(shown).toMatchObject({ kind: "value", isCut: true });
    expect(shown.kind === "value" && shown.text.length).toBeLessThan(500);
  });
});

describe("kindOfType", () => {
  it.each([
    ["BIGINT", "number"],
    ["DECIMAL(10, 2)", "number"],
    ["TIMESTAMP_LTZ(3)", "time"],
    ["VARCHAR(20)", "text"],
    ["VARBINARY", "binary"],
    ["ARRAY<BIGINT>", "nested"],
    ["STRUCT<a INTEGER>", "nested"],
    ["INTERVAL", "text"],
    ["boolean", "boolean"],
  ])("%s is %s", (type, kind) => {
    expect(kindOfType(type)).toBe(kind);
  });
});

describe("wholeValue", () => {
  it("indents JSON and leaves other text alone", () => {
    expect(wholeValue('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}');
    expect(wholeValue("{not json")).toBe("{not json");
    expect(wholeValue("plain")).toBe("plain");
  });

  it("does not touch JSON whose numbers JavaScript would round", () => {
    const exact = '{"id":9223372036854775807}';
    expect(wholeValue(exact)).toBe(exact);
    expect(wholeValue('{"id":"9223372036854775807"}')).toContain("\n");
  });
});

describe("figures", () => {
  it("count in the singular and the plural", () => {
    expect(countText(1, "row")).toBe("1 row");
    expect(countText(12345, "row")).toBe("12,345 rows");
  });

  it("print a duration in a suitable unit", () => {
    expect([durationText(12), durationText(1500), durationText(65_000), durationText(3_725_000)]).toEqual([
      "12 ms",
      "1.5 s",
      "1:05 min",
      "1:02:05 h",
    ]);
  });
});
