import { describe, expect, it } from "vitest";
import { createEntityStatement, dropEntityStatement, generateStatement, relationName } from "./from-entity";

describe("statements about an entity", () => {
  const draft = {
    name: "shop.public.clicks",
    store: "it's",
    path: ["click s"],
    format: "JSON",
  } as const;

  it("infer the columns of a stream over it", () => {
    expect(generateStatement(draft)).toBe(
      `GENERATE STREAM DDL "shop"."public"."clicks" WITH ('store' = 'it''s', 'topic' = 'click s', 'value.format' = 'JSON');`,
    );
    expect([
      generateStatement({ ...draft, name: " " }),
      generateStatement({ ...draft, name: "a..b" }),
    ]).toEqual([null, null]);
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
