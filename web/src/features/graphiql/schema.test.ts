import { buildSchema, introspectionFromSchema } from "graphql";
import { describe, expect, it } from "vitest";
import { membersOf, operationsOf, readSchema, rootTypes } from "./schema";

const schema = readSchema({
  data: introspectionFromSchema(
    buildSchema(`
      "All kinds" enum Kind { STREAM "A table" TABLE }
      type Store { name: String! }
      union Either = Store
      input Filter { name: String }
      type Query { "The stores" stores(first: Int, filter: Filter): [Store!]! }
      type Subscription { changes: Kind }
    `),
  ),
});

describe("the schema", () => {
  it("lists fields with their arguments, values and possible types", () => {
    const members = (name: string) => membersOf(schema.getTypeMap()[name] ?? expect.fail(name));
    expect(members("Query")).toEqual([
      {
        name: "stores",
        type: "[Store!]!",
        named: "Store",
        description: "The stores",
        inputs: [
          { name: "first", type: "Int", named: "Int", description: "" },
          { name: "filter", type: "Filter", named: "Filter", description: "" },
        ],
      },
    ]);
    expect(members("Kind").map(({ name, description }) => [name, description])).toEqual([
      ["STREAM", ""],
      ["TABLE", "A table"],
    ]);
    expect([members("Either"), members("Filter")].map(([first]) => first?.named)).toEqual([
      "Store",
      "String",
    ]);
    expect(members("String")).toEqual([]);
    expect(rootTypes(schema).map(({ name }) => name)).toEqual(["Query", "Subscription"]);
  });

  it("is none with the server's reason", () => {
    expect(() => readSchema({ data: null, errors: [{ message: "introspection is off" }] })).toThrow(
      "introspection is off",
    );
    expect(() => readSchema(null)).toThrow("no schema");
  });
});

describe("the operations of a document", () => {
  it("have names, of which the user chooses one", () => {
    expect(operationsOf("query a { x } subscription b { y } fragment f on T { z }")).toEqual([
      { name: "a", isSubscription: false },
      { name: "b", isSubscription: true },
    ]);
    expect([operationsOf("{ x }"), operationsOf("{")]).toEqual([[{ name: null, isSubscription: false }], []]);
  });
});
