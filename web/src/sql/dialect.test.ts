import { describe, expect, it } from "vitest";
import type { Language } from "../api/wire";
import { dialectOf } from "./dialect";

const LANGUAGE: Language = {
  words: ["SELECT", "RESTART"],
  types: ["TIMESTAMP_LTZ"],
  functions: ["LEAST"],
  storeTypes: [],
  properties: [],
  privileges: {},
};

function nodes(text: string): readonly string[] {
  const names: string[] = [];
  dialectOf(LANGUAGE)
    .language.parser.parse(text)
    .iterate({ enter: ({ name, node }) => void (node.firstChild === null && names.push(name)) });
  return names;
}

describe("the dialect", () => {
  it("has the server's words, types and functions, and no others", () => {
    expect(nodes("restart TIMESTAMP_LTZ least update")).toEqual(["Keyword", "Type", "Builtin", "Identifier"]);
  });

  it("quotes identifiers as the server does", () => {
    expect(nodes('"a" `b`')).toEqual(["QuotedIdentifier", "QuotedIdentifier"]);
  });
});
