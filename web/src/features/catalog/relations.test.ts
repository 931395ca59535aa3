import { describe, expect, it } from "vitest";
import type { RelationRow, SchemaRow } from "../../catalog/lists";
import { describeStatement, grouped, relationDdl, relationFacts } from "./relations";

const relation = (database: string, schema: string, name: string, type: string): RelationRow => ({
  ...{ databaseName: database, schemaName: schema, name, relationType: type, owner: "r" },
  ...{ fqn: `${database}.${schema}.${name}`, storeName: null, entity: null, description: null },
});
const SCHEMAS: readonly SchemaRow[] = [
  { databaseName: "shop", name: "public" },
  { databaseName: "lab", name: "tests" },
  { databaseName: "lab", name: "empty" },
];
const RELATIONS = [
  relation("shop", "public", "orders", "stream"),
  relation("lab", "tests", "orders_late", "changelog"),
];
const shown = (text: string, type?: string) =>
  grouped(SCHEMAS, RELATIONS, text, type).map((group) => [
    group.schema,
    ...group.relations.map((each) => each.name),
  ]);

describe("the catalog", () => {
  it("groups relations by schema, in order, and shows empty schemas", () => {
    expect(shown("")).toEqual([["empty"], ["tests", "orders_late"], ["public", "orders"]]);
  });

  it("filters by words and type", () => {
    expect(shown("LATE")).toEqual([["tests", "orders_late"]]);
    expect(shown("", "stream")).toEqual([["public", "orders"]]);
    expect(shown("nothing")).toEqual([]);
    expect(shown("lab.tests.")).toEqual([["tests", "orders_late"]]);
  });

  it("finds the definition of a relation by its name as a text", () => {
    expect(relationDdl("a'b", "s", "r").statement).toContain(
      "database_name = 'a''b' AND schema_name = 's' AND name = 'r'",
    );
  });

  it("takes the names of a relation as texts, whatever the address contains", () => {
    const { statement } = relationFacts("a'b", "s", 'r"');
    expect(statement).toContain("database_name = 'a''b'");
    expect(statement).toContain(`l.source = '"a''b"."s"."r"""'`);
  });
});

describe("describeStatement", () => {
  it("quotes the text, and removes an empty one", () => {
    expect(describeStatement(`"a"."b"."c"`, " it's ")).toBe(
      `ALTER RELATION "a"."b"."c" SET description = 'it''s';`,
    );
    expect(describeStatement(`"a"."b"."c"`, " ")).toBe(`ALTER RELATION "a"."b"."c" SET description = NULL;`);
  });
});
