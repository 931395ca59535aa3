import { describe, expect, it } from "vitest";
import { graphqlPath, readData, readVariables } from "./graphql";

describe("an operation of GraphQL", () => {
  it("runs in the names of the session, without the organization", () => {
    expect(graphqlPath({})).toBe("graphql");
    expect(graphqlPath({ organization: "o", role: "sysadmin", computePool: "a&b=c" })).toBe(
      "graphql?role=sysadmin&computePool=a%26b%3Dc",
    );
  });

  it("has variables if they are an object", () => {
    expect(readVariables('{"first": 2}')).toEqual({ first: 2 });
    expect(readVariables("  ")).toBeNull();
    expect(() => readVariables("[1]")).toThrow("expected an object");
    expect(() => readVariables("{")).toThrow(SyntaxError);
  });
});

describe("an answer of GraphQL", () => {
  it("is its data, or the failure of its first error", () => {
    expect(readData({ data: { n: 1 } })).toEqual({ data: { n: 1 }, failure: null });
    const extensions = { sqlState: "54000", hint: "Request fewer." };
    expect(readData({ data: null, errors: [{ message: "too many fields", extensions }] })).toMatchObject({
      data: null,
      failure: { kind: "sql", sqlState: "54000", message: "too many fields", hint: "Request fewer." },
    });
    expect(readData(null).failure).toMatchObject({ kind: "broken" });
  });
});
