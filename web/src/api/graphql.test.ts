import { describe, expect, it } from "vitest";
import { graphqlPath, readVariables } from "./graphql";

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
