import { describe, expect, it } from "vitest";
import { readSqlFailure } from "../../api/failures";
import type { ResultSet } from "../../api/statements";
import { StreamRows } from "../../grid/rows";
import { IDLE, isEffect, type RunAction, type RunState, reduceRun } from "./run-state";

const statement = { text: "SELECT 1;", offset: 0 };
const result: ResultSet = {
  kind: "result",
  columns: [],
  rows: [],
  isTruncated: false,
  message: "",
  context: null,
};
const failure = readSqlFailure("42601", "no");

const submit = (id: number, more: Partial<Extract<RunAction, { kind: "submit" }>> = {}): RunAction => ({
  kind: "submit",
  id,
  statement,
  at: 100,
  isContinuation: false,
  remaining: 0,
  ...more,
});

const stateAfter = (...actions: readonly RunAction[]): RunState => actions.reduce(reduceRun, IDLE);
const kindAfter = (...actions: readonly RunAction[]) => stateAfter(...actions).current.kind;

describe("reduceRun", () => {
  it("changes from submitting to done with a result", () => {
    expect(stateAfter(submit(1), { kind: "result", id: 1, at: 150, result }).current).toMatchObject({
      kind: "done",
      startedAt: 100,
      finishedAt: 150,
      output: result,
    });
  });

  it("passes through streaming, and keeps the rows when it is cancelled or fails", () => {
    const rows = new StreamRows(10, () => {});
    const streaming: RunAction[] = [
      submit(1),
      { kind: "stream", id: 1, rows, message: "" },
      { kind: "columns", id: 1, columns: [] },
    ];
    expect(stateAfter(...streaming).current).toMatchObject({
      kind: "streaming",
      output: { columns: [], rows },
    });
    const ends: readonly (readonly [RunAction, string])[] = [
      [{ kind: "cancel", id: 1, at: 9 }, "cancelled"],
      [{ kind: "fail", id: 1, at: 9, failure }, "failed"],
      [{ kind: "end", id: 1, at: 9 }, "done"],
    ];
    for (const [end, kind] of ends) {
      expect(stateAfter(...streaming, end).current).toMatchObject({ kind, output: { kind: "stream", rows } });
    }
  });

  it("can be cancelled or fail before anything came back", () => {
    expect(kindAfter(submit(1), { kind: "cancel", id: 1, at: 9 })).toBe("cancelled");
    expect(stateAfter(submit(1), { kind: "fail", id: 1, at: 9, failure }).current).toMatchObject({
      kind: "failed",
      failure,
      output: { kind: "nothing" },
    });
  });

  it("ignores late events of a run that ended or was replaced", () => {
    expect(
      kindAfter(submit(1), { kind: "cancel", id: 1, at: 9 }, { kind: "result", id: 1, at: 10, result }),
    ).toBe("cancelled");
    expect(kindAfter(submit(1), submit(2), { kind: "fail", id: 1, at: 10, failure })).toBe("submitting");
    expect(kindAfter({ kind: "end", id: 7, at: 1 })).toBe("idle");
  });

  it("ignores events that do not belong to its state", () => {
    expect(kindAfter(submit(1), { kind: "columns", id: 1, columns: [] })).toBe("submitting");
    const rows = new StreamRows(10, () => {});
    expect(
      kindAfter(
        submit(1),
        { kind: "stream", id: 1, rows, message: "" },
        { kind: "result", id: 1, at: 1, result },
      ),
    ).toBe("streaming");
  });

  it("keeps the earlier statements of a script, and drops them for a new one", () => {
    const script = [
      submit(1, { remaining: 1 }),
      { kind: "result", id: 1, at: 150, result },
      submit(2, { isContinuation: true }),
    ] satisfies RunAction[];
    expect(stateAfter(...script).earlier.map((run) => [run.id, run.kind])).toEqual([[1, "done"]]);
    expect(stateAfter(...script, submit(3)).earlier).toEqual([]);
  });
});

describe("isEffect", () => {
  it("knows the row of a statement that changed something", () => {
    const named = (...names: readonly string[]) => ({
      ...result,
      columns: names.map((name) => ({ name, type: "VARCHAR", nullable: true })),
    });
    expect(isEffect(named("Type", "Name", "Command", "Summary", "Path"))).toBe(true);
    expect(isEffect(named("Name", "Type", "State", "Owner", "Path"))).toBe(false);
    expect(isEffect(named("Command"))).toBe(false);
  });
});
