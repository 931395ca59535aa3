import { CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { EditorState } from "@codemirror/state";
import { describe, expect, it } from "vitest";
import type { Candidate, Candidates } from "../api/wire";
import { completionSource, resultOf } from "./completion";

const candidate = (label: string, insert = label): Candidate => ({
  ...{ label, insert, kind: "column", detail: "INTEGER", documentation: "" },
});
const at = (text: string, isExplicit = false) =>
  new CompletionContext(EditorState.create({ doc: text }), text.length, isExplicit);
const labels = (result: CompletionResult | null) => result?.options.map((option) => option.label) ?? null;
const typedOn = (result: CompletionResult | null, text: string) =>
  result?.update?.(result, result.from, text.length, at(text)) ?? null;

describe("a list of candidates", () => {
  const text = "SELECT 🦆c";
  const answer: Candidates = {
    start: 8,
    end: 9,
    candidates: ["city", "count", "CAST"].map((n) => candidate(n)),
  };

  it("keeps the server's order, and is narrowed while the name is typed on", () => {
    const result = resultOf(text, text.length, answer);
    expect(result).toMatchObject({ from: 9, to: 10, filter: false });
    expect(labels(result)).toEqual(["city", "count", "CAST"]);
    const next = typedOn(result, `${text}o`);
    expect(labels(next)).toEqual(["count"]);
    expect(labels(typedOn(next, text))).toEqual(["city", "count", "CAST"]);
    expect(typedOn(result, `${text}o `)).toBeNull();
  });

  it("is not shown for a word that is whole, so that Enter is a new line", () => {
    expect(resultOf("cast", 4, { start: 0, end: 4, candidates: [candidate("CAST")] })).toBeNull();
    expect(typedOn(resultOf(text, text.length, answer), "SELECT 🦆cast")).toBeNull();
  });

  it("is asked for again if the server left some out", () => {
    const many = Array.from({ length: 500 }, (_, number) => candidate(`c${number}`));
    expect(typedOn(resultOf("c", 1, { start: 0, end: 1, candidates: many }), "c1")).toBeNull();
  });

  it("compares what stands behind an opening quote", () => {
    const quoted = { start: 6, end: 9, candidates: [candidate("store", "'store' = "), candidate("topic")] };
    const result = resultOf("WITH ('s'", 8, quoted);
    expect(labels(result)).toEqual(["store"]);
    expect(result).toMatchObject({ from: 6, to: 9 });
  });
});

describe("the source", () => {
  const asked: [string, number][] = [];
  const source = completionSource(async (text, offset) => {
    asked.push([text, offset]);
    return { start: offset - 1, end: offset, candidates: [candidate("city")] };
  });

  it("asks for names, dots and quotes while they are typed, and anywhere on request", async () => {
    for (const text of ["SELECT  ", "SELECT 1", "SELECT 1e"]) expect(await source(at(text))).toBeNull();
    expect(asked).toEqual([]);
    expect(labels(await source(at("SELECT '🦆', c")))).toEqual(["city"]);
    expect(asked).toEqual([["SELECT '🦆', c", 13]]);
    for (const text of ["a.", "WITH ('", 'FROM "']) await source(at(text));
    await source(at("SELECT ", true));
    expect(asked).toHaveLength(5);
  });

  it("opens after a blank where the statement must continue", async () => {
    const answered = (opens: boolean) =>
      completionSource(async (_, offset) => ({
        start: offset,
        end: offset,
        candidates: [candidate("STORES")],
        opens,
      }));
    expect(labels(await answered(true)(at("LIST ")))).toEqual(["STORES"]);
    expect(await answered(false)(at("LIST STORES "))).toBeNull();
    expect(labels(await answered(false)(at("LIST S")))).toEqual(["STORES"]);
    expect(await answered(true)(at("LIST; "))).toBeNull();
  });

  it("has no list for an answer that is stale or failed", async () => {
    const context = at("c");
    const late = completionSource(async () => {
      Object.defineProperty(context, "aborted", { value: true });
      return { start: 0, end: 1, candidates: [candidate("city")] };
    });
    expect(await late(context)).toBeNull();
    expect(await completionSource(() => Promise.reject(new Error("away")))(at("c"))).toBeNull();
  });
});
