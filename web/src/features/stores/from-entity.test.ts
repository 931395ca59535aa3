import { describe, expect, it } from "vitest";
import {
  changelogStatement,
  createEntityStatement,
  dropEntityStatement,
  inferStatement,
  readColumns,
  relationName,
} from "./from-entity";

describe("statements about an entity", () => {
  const draft = {
    kind: "STREAM",
    name: "shop.public.clicks",
    store: "it's",
    path: ["click s"],
    format: "JSON",
  } as const;
  const properties = `WITH ('store' = 'it''s', 'topic' = 'click s', 'value.format' = 'JSON');`;

  it("infer the columns of a stream or a changelog over it", () => {
    expect(inferStatement(draft)).toBe(`GENERATE STREAM DDL "shop"."public"."clicks" ${properties}`);
    expect(inferStatement({ ...draft, kind: "CHANGELOG" })).toBe(`GENERATE COLUMNS ${properties}`);
    expect([inferStatement({ ...draft, name: " " }), inferStatement({ ...draft, name: "a..b" })]).toEqual([
      null,
      null,
    ]);
  });

  it("create a changelog with the chosen key", () => {
    const columns = readColumns({
      kind: "result",
      columns: [],
      rows: [
        ["Id", "BIGINT", "false", "true"],
        ['na"me', "STRUCT<a VARCHAR>", "true", "false"],
      ],
      isTruncated: false,
      message: "",
      context: null,
    });
    expect(columns.map(({ isKey }) => isKey)).toEqual([true, false]);
    const lines = `"Id" BIGINT NOT NULL,\n  "na""me" STRUCT<a VARCHAR>,\n  PRIMARY KEY ("Id", "na""me")`;
    expect(changelogStatement(draft, columns, ["Id", 'na"me'])).toBe(
      `CREATE CHANGELOG "shop"."public"."clicks" (\n  ${lines}\n) ${properties}`,
    );
    expect(changelogStatement(draft, columns, [])).toBeNull();
    expect(changelogStatement({ ...draft, name: "" }, columns, ["Id"])).toBeNull();
  });

  it("create and drop one", () => {
    expect(
      createEntityStatement("k", ' a"b.c ', false, { "topic.partitions": " 3", "topic.replicas": "" }),
    ).toBe(`CREATE ENTITY "a""b.c" IN STORE "k" WITH ('topic.partitions' = '3');`);
    expect([
      createEntityStatement("k", "", false, {}),
      createEntityStatement("k", "a..t", true, {}),
      createEntityStatement("k", "a.t", true, {}),
    ]).toEqual([null, null, `CREATE ENTITY "a"."t" IN STORE "k";`]);
    expect(dropEntityStatement("k", ["db", "t"])).toBe(`DROP ENTITY "db"."t" IN STORE "k";`);
  });

  it("suggest a name that needs no quotes", () => {
    expect(["Web-Clicks.v2", "2026", "--"].map(relationName)).toEqual(["web_clicks_v2", "e_2026", "e_"]);
  });
});
