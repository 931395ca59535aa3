/** Runs the statements of a script one after the other, and reports events to the reducer. */

import { useCallback, useEffect, useReducer, useRef } from "react";
import { openStream } from "../../api/dataplane";
import { type Failure, failureOf } from "../../api/failures";
import type { ResultSet, StatementClient, StreamOffer } from "../../api/statements";
import type { StatementContext } from "../../api/wire";
import { StreamRows } from "../../grid/rows";
import { IDLE, type RunAction, type RunState, type RunStatement, reduceRun } from "./run-state";

export interface RunEnvironment {
  readonly client: StatementClient;
  /** Read anew before each statement, since a USE in the script changes it. */
  readonly currentContext: () => StatementContext;
  readonly onContext: (context: StatementContext) => void;
  readonly onSuccess: (result: ResultSet) => void;
  readonly onFailure: (failure: Failure, statement: RunStatement) => void;
}

export interface Runner {
  readonly state: RunState;
  readonly run: (statements: readonly RunStatement[]) => void;
  readonly stop: () => void;
}

interface StatementTask {
  readonly id: number;
  readonly statement: RunStatement;
  readonly signal: AbortSignal;
}

export function useRun(environment: RunEnvironment): Runner {
  const [state, dispatch] = useReducer(reduceRun, IDLE);
  const latest = useRef(environment);
  latest.current = environment;
  const script = useRef<AbortController | null>(null);
  const nextId = useRef(1);

  const stop = useCallback(() => {
    script.current?.abort();
    script.current = null;
  }, []);

  const run = useCallback(
    (statements: readonly RunStatement[]) => {
      stop();
      const controller = new AbortController();
      script.current = controller;
      void (async () => {
        for (const [index, statement] of statements.entries()) {
          const task = { id: nextId.current++, statement, signal: controller.signal };
          dispatch({
            kind: "submit",
            id: task.id,
            statement,
            at: Date.now(),
            isContinuation: index > 0,
            remaining: statements.length - index - 1,
          });
          if (!(await succeeds(task, latest.current, dispatch))) return;
        }
      })();
    },
    [stop],
  );

  useEffect(() => stop, [stop]);
  return { state, run, stop };
}

async function succeeds(
  task: StatementTask,
  environment: RunEnvironment,
  dispatch: (action: RunAction) => void,
): Promise<boolean> {
  const { id, statement, signal } = task;
  const cancelled = () => dispatch({ kind: "cancel", id, at: Date.now() });
  signal.addEventListener("abort", cancelled);
  try {
    const context = environment.currentContext();
    const outcome = await environment.client.run({ statement: statement.text, context, signal });
    if (signal.aborted) return false;
    if (outcome.context !== null) environment.onContext(outcome.context);
    if (outcome.kind === "stream") {
      return await streams(task, outcome, environment, dispatch);
    }
    dispatch({ kind: "result", id, at: Date.now(), result: outcome });
    environment.onSuccess(outcome);
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    const failure = failureOf(error);
    dispatch({ kind: "fail", id, at: Date.now(), failure });
    environment.onFailure(failure, statement);
    return false;
  } finally {
    signal.removeEventListener("abort", cancelled);
  }
}

/** Resolves when the stream is over: true when it ended by itself, so that the script continues. */
function streams(
  { id, statement, signal }: StatementTask,
  offer: StreamOffer,
  environment: RunEnvironment,
  dispatch: (action: RunAction) => void,
): Promise<boolean> {
  const rows = new StreamRows();
  dispatch({ kind: "stream", id, rows, message: offer.message });
  return new Promise((resolve, reject) => {
    const stream = openStream(offer.request, {
      onColumns: (columns) => {
        const key = columns.flatMap((column, place) => (column.isKey === true ? [place] : []));
        rows.keepCurrent(
          columns.findIndex((column) => column.isOp === true),
          key,
        );
        dispatch({ kind: "columns", id, columns });
      },
      onRow: (row) => rows.append(row, Date.now()),
      onEnd: () => {
        dispatch({ kind: "end", id, at: Date.now() });
        resolve(true);
      },
      onFailure: (failure) => {
        dispatch({ kind: "fail", id, at: Date.now(), failure });
        environment.onFailure(failure, statement);
        resolve(false);
      },
    });
    signal.addEventListener("abort", () => {
      stream.close();
      reject(new DOMException("The statement was stopped.", "AbortError"));
    });
  });
}
