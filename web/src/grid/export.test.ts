import { describe, expect, it } from "vitest";
import { csvField, toCsv, toJson, toNdjson, uniqueNames } from "./export";

const column = (name: string, type = "VARCHAR") => ({ name, type, nullable: true });

describe("csvField", () => {
  it.each(["=1+2", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x")'])(
    "disarms the formula %j in a text column",
    (formula) => {
      expect(csvField(formula, "VARCHAR")).toBe(`"'${formula.replaceAll('"', '""')}"`);
    },
  );

  it("leaves negative numbers of numeric columns alone, but not text in them", () => {
    expect(csvField("-12.50", "DECIMAL(10, 2)")).toBe("-12.50");
    expect(csvField("-1.79E+308", "DOUBLE")).toBe("-1.79E+308");
    expect(csvField("-1+cmd", "DOUBLE")).toBe('"\'-1+cmd"');
  });

  it("distinguishes NULL from the empty string", () => {
    expect(csvField(null, "VARCHAR")).toBe("");
    expect(csvField("", "VARCHAR")).toBe('""');
  });

  it("quotes what would break a line or a field", () => {
    expect(csvField('a,"b"\n', "VARCHAR")).toBe('"a,""b""\n"');
    expect(csvField(" padded", "VARCHAR")).toBe('" padded"');
    expect(csvField("plain", "VARCHAR")).toBe("plain");
  });
});

describe("toCsv", () => {
  it("writes a header and one line for each row, and disarms column names too", () => {
    const csv = toCsv(
      [column("=id", "BIGINT"), column("note")],
      [
        ["1", null],
        ["2", ""],
      ],
    );
    expect(csv).toBe('"\'=id",note\r\n1,\r\n2,""\r\n');
  });
});

describe("toJson", () => {
  it("keeps values as text and NULL as null", () => {
    const json = toJson([column("id", "BIGINT"), column("note")], [["9223372036854775807", null]]);
    expect(JSON.parse(json)).toEqual([{ id: "9223372036854775807", note: null }]);
  });

  it("writes an empty array for no rows", () => {
    expect(JSON.parse(toJson([column("id")], []))).toEqual([]);
  });

  it("keeps both of two columns with one name", () => {
    expect(uniqueNames(["id", "id", "id_2", "id"])).toEqual(["id", "id_2", "id_2_2", "id_3"]);
    expect(JSON.parse(toJson([column("id"), column("id")], [["1", "2"]]))).toEqual([{ id: "1", id_2: "2" }]);
  });
});

describe("toNdjson", () => {
  it("writes one object a line, however the values break lines", () => {
    const text = toNdjson(
      [column("id"), column("id")],
      [
        ["a\nb", null],
        [null, ""],
      ],
    );
    expect(
      text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { id: "a\nb", id_2: null },
      { id: null, id_2: "" },
    ]);
  });
});
