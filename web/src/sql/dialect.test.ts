import { describe, expect, it } from "vitest";
import type { Language } from "../api/wire";
import { dialectOf, wordCompletion } from "./dialect";

const LANGUAGE: Language = {
  words: ["SELECT", "RESTART"],
  types: ["TIMESTAMP_LTZ"],
  functions: [{ name: "LEAST", signature: "LEAST(value, …)", documentation: "The least value." }],
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

describe("wordCompletion", () => {
  it("shows the signature and documentation of a function, and nothing more of a word", () => {
    const complete = wordCompletion(LANGUAGE);
    expect(complete("LEAST", "type")).toEqual({
      label: "LEAST",
      type: "function",
      boost: -1,
      detail: "LEAST(value, …)",
      info: "The least value.",
    });
    expect(complete("SELECT", "keyword")).toEqual({ label: "SELECT", type: "keyword", boost: -1 });
  });
});
