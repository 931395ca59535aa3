/** State of a statement in the workspace. A run moves through these states and never back. */

import type { Failure } from "../../api/failures";
import type { ResultSet } from "../../api/statements";
import type { Column } from "../../api/wire";
import type { StreamRows } from "../../grid/rows";

export interface RunStatement {
  readonly text: string;
  /** Start of the text in the editor when it was run; null for a statement that is not from the
   * editor.
   */
  readonly offset: number | null;
}

interface Started {
  /** Distinguishes this run from earlier runs, whose late responses are ignored. */
  readonly id: number;
  readonly statement: RunStatement;
  readonly startedAt: number;
}

interface Finished extends Started {
  readonly finishedAt: number;
  readonly output: Output;
}

export interface StreamOutput {
  readonly kind: "stream";
  /** Null until the query runs and reports its columns. */
  readonly columns: readonly Column[] | null;
  readonly rows: StreamRows;
  /** Message for a reader while no row has come; empty if every record is read. */
  readonly message: string;
}

type Output = ResultSet | StreamOutput | { readonly kind: "nothing" };

type FinishedRun =
  | (Finished & { readonly kind: "done" })
  | (Finished & { readonly kind: "cancelled" })
  | (Finished & { readonly kind: "failed"; readonly failure: Failure });

export type Run =
  | { readonly kind: "idle" }
  | (Started & { readonly kind: "submitting" })
  | (Started & { readonly kind: "streaming"; readonly output: StreamOutput })
  | FinishedRun;

export interface RunState {
  readonly current: Run;
  /** The statements of the same script that ended before the current one, oldest first. */
  readonly earlier: readonly FinishedRun[];
  /** Number of remaining statements of the script. */
  readonly remaining: number;
}

export type RunAction =
  | {
      readonly kind: "submit";
      readonly id: number;
      readonly statement: RunStatement;
      readonly at: number;
      readonly isContinuation: boolean;
      readonly remaining: number;
    }
  | { readonly kind: "result"; readonly id: number; readonly at: number; readonly result: ResultSet }
  | { readonly kind: "stream"; readonly id: number; readonly rows: StreamRows; readonly message: string }
  | { readonly kind: "columns"; readonly id: number; readonly columns: readonly Column[] }
  | { readonly kind: "end"; readonly id: number; readonly at: number }
  | { readonly kind: "cancel"; readonly id: number; readonly at: number }
  | { readonly kind: "fail"; readonly id: number; readonly at: number; readonly failure: Failure };

export const IDLE: RunState = { current: { kind: "idle" }, earlier: [], remaining: 0 };

const NOTHING: Output = { kind: "nothing" };

/** True for the row that every statement answers which changed something; its third column names the command. */
export function isEffect(result: ResultSet): boolean {
  return result.columns.length === 5 && result.columns[2]?.name === "Command";
}

export function isActive(run: Run): run is Extract<Run, { kind: "submitting" | "streaming" }> {
  return run.kind === "submitting" || run.kind === "streaming";
}

function isFinished(run: Run): run is FinishedRun {
  return run.kind !== "idle" && !isActive(run);
}

export function reduceRun(state: RunState, action: RunAction): RunState {
  if (action.kind === "submit") return submitted(state, action);
  const { current } = state;
  // Events of a finished run, or of one that another has replaced, arrive late and change nothing.
  if (!isActive(current) || current.id !== action.id) return state;
  const next = advanced(current, action);
  return next === current ? state : { ...state, current: next };
}

function submitted(state: RunState, action: Extract<RunAction, { kind: "submit" }>): RunState {
  const { current } = state;
  const earlier = action.isContinuation && isFinished(current) ? [...state.earlier, current] : [];
  return {
    current: { kind: "submitting", id: action.id, statement: action.statement, startedAt: action.at },
    earlier,
    remaining: action.remaining,
  };
}

function advanced(
  current: Extract<Run, { kind: "submitting" | "streaming" }>,
  action: Exclude<RunAction, { kind: "submit" }>,
): Run {
  const { id, statement, startedAt } = current;
  const output = current.kind === "streaming" ? current.output : NOTHING;
  switch (action.kind) {
    case "result":
      if (current.kind !== "submitting") return current;
      return { kind: "done", id, statement, startedAt, finishedAt: action.at, output: action.result };
    case "stream":
      if (current.kind !== "submitting") return current;
      return {
        kind: "streaming",
        id,
        statement,
        startedAt,
        output: { kind: "stream", columns: null, rows: action.rows, message: action.message },
      };
    case "columns":
      if (current.kind !== "streaming") return current;
      return { ...current, output: { ...current.output, columns: action.columns } };
    case "end":
      return { kind: "done", id, statement, startedAt, finishedAt: action.at, output };
    case "cancel":
      return { kind: "cancelled", id, statement, startedAt, finishedAt: action.at, output };
    case "fail":
      return {
        kind: "failed",
        id,
        statement,
        startedAt,
        finishedAt: action.at,
        output,
        failure: action.failure,
      };
  }
}
