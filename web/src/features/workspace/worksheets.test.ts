import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { broken, RequestFailed } from "../../api/failures";
import type { SavedWorksheet, WorksheetDraft } from "../../api/worksheets";
import { hasSameNames, openSheets, SAVE_DELAY_MS, WORKSHEETS, Worksheets } from "./worksheets";

const row = (id: string, text: string, version: number, open = "true") => [
  ...[id, `name of ${id}`, text, open, String(version)],
  ...["sysadmin", "shop", "public", null, null],
];
const rows = (...all: readonly (string | null)[][]) =>
  WORKSHEETS.read({
    ...{ kind: "result", columns: [], rows: all, isTruncated: false, message: "", context: null },
  });

let saves: (WorksheetDraft & { readonly id: string })[];
let removed: string[];
let answer: (draft: WorksheetDraft) => Promise<SavedWorksheet>;
let sheets: Worksheets;
const texts = () => sheets.state().sheets.map((sheet) => sheet.text);
const pause = () => vi.advanceTimersByTimeAsync(SAVE_DELAY_MS);

beforeEach(() => {
  vi.useFakeTimers();
  saves = [];
  removed = [];
  answer = async ({ version }) => ({ version: version + 1, replaced: false });
  sheets = new Worksheets({
    save: (id, draft) => {
      saves.push({ id, ...draft });
      return answer(draft);
    },
    remove: async (id) => void removed.push(id),
  });
});
afterEach(() => vi.useRealTimers());

describe("worksheets", () => {
  it("are read with their names", () => {
    sheets.merge(rows(row("a", "SELECT 1", 3)));
    expect(sheets.state().sheets[0]).toMatchObject({
      ...{ id: "a", name: "name of a", text: "SELECT 1", isOpen: true, version: 3 },
      context: { role: "sysadmin", database: "shop", schema: "public" },
    });
  });

  it("are saved once after a pause in typing, and not before they are changed", async () => {
    const id = sheets.create("", { role: "r" });
    await pause();
    expect(saves).toEqual([]);
    for (const text of ["S", "SE", "SELECT 1"]) sheets.edit(id, { text });
    await pause();
    expect(saves).toMatchObject([{ id, name: "Worksheet 1", text: "SELECT 1", version: 0, open: true }]);
    expect(sheets.state().sheets[0]).toMatchObject({ version: 1, isDirty: false });
    await pause();
    expect(saves).toHaveLength(1);
  });

  it("are saved one request at a time, with what was typed meanwhile", async () => {
    const id = sheets.create("", {});
    let finish: (saved: SavedWorksheet) => void = () => {};
    answer = () => new Promise((resolve) => (finish = resolve));
    sheets.edit(id, { text: "a" });
    await pause();
    sheets.edit(id, { text: "ab" });
    await pause();
    expect(saves.map((save) => save.text)).toEqual(["a"]);
    finish({ version: 1, replaced: false });
    await pause();
    expect(saves.map((save) => [save.text, save.version])).toEqual([
      ["a", 0],
      ["ab", 1],
    ]);
  });

  it("are sent at once when the page is left, also while an earlier text is on its way", () => {
    answer = () => new Promise(() => {});
    const id = sheets.create("", {});
    sheets.edit(id, { text: "a" });
    void sheets.flush();
    sheets.leave();
    expect(saves.map((save) => save.text)).toEqual(["a"]);
    sheets.edit(id, { text: "ab" });
    sheets.leave();
    expect(saves.map((save) => save.text)).toEqual(["a", "ab"]);
  });

  it("are saved before the user signs out, after a request that is on its way", async () => {
    let finish: (saved: SavedWorksheet) => void = () => {};
    answer = () => new Promise((resolve) => (finish = resolve));
    const id = sheets.create("", {});
    sheets.edit(id, { text: "a" });
    await pause();
    sheets.edit(id, { text: "ab" });
    const flushed = sheets.flush();
    answer = async () => ({ version: 2, replaced: false });
    finish({ version: 1, replaced: false });
    expect(await flushed).toEqual([]);
    expect(saves.map((save) => [save.text, save.version])).toEqual([
      ["a", 0],
      ["ab", 1],
    ]);
  });

  it("are named if they cannot be saved, and leaving the page is a risk then, as with a long text", async () => {
    answer = () => Promise.reject(new RequestFailed(broken("full")));
    const id = sheets.create("", {});
    sheets.edit(id, { text: "a" });
    expect(sheets.isAtRisk()).toBe(false);
    expect(await sheets.flush()).toEqual(["Worksheet 1"]);
    expect(sheets.isAtRisk()).toBe(true);
    answer = async () => ({ version: 1, replaced: false });
    expect(await sheets.flush()).toEqual([]);
    expect(sheets.isAtRisk()).toBe(false);
    sheets.edit(id, { text: "a".repeat(30_000) });
    expect(sheets.isAtRisk()).toBe(true);
  });

  it("are saved when another one is shown", () => {
    const id = sheets.create("", {});
    sheets.edit(id, { text: "a" });
    sheets.choose(sheets.create("", {}));
    expect(saves).toEqual([]);
    sheets.choose(id);
    expect(saves).toHaveLength(1);
  });

  it("take over what was changed elsewhere, and report it", () => {
    sheets.merge(rows(row("a", "old", 1)));
    sheets.merge(rows(row("a", "older", 0), row("b", "other", 1)));
    expect([texts(), sheets.state().notice]).toEqual([["old", "other"], null]);
    sheets.merge(rows(row("a", "new", 2)));
    expect(texts()).toEqual(["new", "other"]);
    expect(sheets.state().sheets[0]?.revision).toBe(1);
    expect(sheets.state().notice).toContain("name of a");
  });

  it("keep what was typed here, which replaces a later version with a notice", async () => {
    sheets.merge(rows(row("a", "old", 1)));
    sheets.edit("a", { text: "mine" });
    sheets.merge(rows(row("a", "theirs", 2)));
    expect(texts()).toEqual(["mine"]);
    answer = async () => ({ version: 3, replaced: true });
    await pause();
    expect(saves).toMatchObject([{ text: "mine", version: 1 }]);
    expect(sheets.state().notice).toContain("changed elsewhere too");
    expect(sheets.state().sheets[0]?.version).toBe(3);
    sheets.dismissNotice();
    expect(sheets.state().notice).toBeNull();
  });

  it("stay unsaved with a notice when the server refuses, and are saved at the next refresh", async () => {
    const id = sheets.create("", {});
    answer = () => Promise.reject(new RequestFailed(broken("too many worksheets are open")));
    sheets.edit(id, { text: "a" });
    await pause();
    expect(sheets.state().notice).toContain("too many worksheets are open");
    answer = async () => ({ version: 1, replaced: false });
    sheets.merge(rows());
    await pause();
    expect(sheets.state().sheets[0]).toMatchObject({ isDirty: false, version: 1 });
  });

  it("are closed and opened again; an empty one is deleted", async () => {
    sheets.merge(rows(row("a", "1", 1), row("b", " ", 1), row("c", "3", 1)));
    sheets.choose("a");
    sheets.close("a");
    expect(sheets.state().active).toBe("b");
    sheets.close("b");
    expect([sheets.state().active, removed]).toEqual(["c", ["b"]]);
    sheets.close("c");
    expect([sheets.state().active, openSheets(sheets.state())]).toEqual([null, []]);
    sheets.edit("a", { isOpen: true });
    await pause();
    expect(saves.map((save) => [save.id, save.open])).toEqual([
      ["c", false],
      ["a", true],
    ]);
    sheets.remove("a");
    expect(removed).toEqual(["b", "a"]);
  });

  it("have names that no other has", () => {
    for (const _ of [1, 2]) sheets.create("", {});
    expect(sheets.state().sheets.map((sheet) => sheet.name)).toEqual(["Worksheet 1", "Worksheet 2"]);
  });
});

it("compares contexts by their names", () => {
  expect(hasSameNames({ role: "a", organization: "x" }, { role: "a" })).toBe(true);
  expect(hasSameNames({ role: "a" }, { role: "a", database: "d" })).toBe(false);
});
