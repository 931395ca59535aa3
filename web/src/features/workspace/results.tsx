import { useEffect, useState } from "react";
import { Empty } from "../../ui/empty";
import { COMMAND_KEY } from "../../ui/keys";
import { FailurePanel } from "./failure-panel";
import type { Run, RunState, RunStatement } from "./run-state";
import { StreamResult } from "./stream-result";
import { TableResult } from "./table-result";

interface ResultsProps {
  readonly state: RunState;
  readonly onShowPosition: (statement: RunStatement) => void;
}

/** The results of a script: one tab for each statement that ran, the running one last. */
export function Results({ state, onShowPosition }: ResultsProps) {
  const runs = state.current.kind === "idle" ? [] : [...state.earlier, state.current];
  const newest = state.current.kind === "idle" ? 0 : state.current.id;
  const [chosen, setChosen] = useState(newest);
  useEffect(() => setChosen(newest), [newest]);
  const shown = runs.find((run) => run.id === chosen) ?? runs.at(-1);

  return (
    <section className="results" aria-label="Results">
      {runs.length > 1 ? (
        <div className="tabs" role="tablist" aria-label="Results of the script">
          {runs.map((run, index) => (
            <button
              key={run.id}
              type="button"
              role="tab"
              aria-selected={run === shown}
              ref={run === shown ? scrollIntoSight : null}
              onClick={() => setChosen(run.id)}
              title={run.statement.text}
            >
              <span className={`dot ${run.kind}`} />
              {index + 1} {firstWords(run.statement.text)}
            </button>
          ))}
        </div>
      ) : null}
      <RunResult run={shown ?? { kind: "idle" }} onShowPosition={onShowPosition} />
    </section>
  );
}

function scrollIntoSight(tab: HTMLElement | null): void {
  tab?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function firstWords(statement: string): string {
  const words = statement.replace(/\s+/g, " ").replace(/;$/, "").split(" ").slice(0, 3).join(" ");
  return words.length > 32 ? `${words.slice(0, 32)}…` : words;
}

interface RunResultProps {
  readonly run: Run;
  readonly onShowPosition: (statement: RunStatement) => void;
}

function RunResult({ run, onShowPosition }: RunResultProps) {
  if (run.kind === "idle") {
    return (
      <Empty title="No results yet">
        Put the cursor in a statement and press <kbd>{COMMAND_KEY}</kbd> <kbd>Enter</kbd>. Rows of a streaming
        query appear here as they arrive.
      </Empty>
    );
  }
  if (run.kind === "submitting") {
    return (
      <Empty title="Running">
        <span className="progress" aria-hidden="true" />
      </Empty>
    );
  }
  const finishedAt = run.kind === "streaming" ? null : run.finishedAt;
  const position = run.kind === "failed" && run.failure.kind === "sql" ? run.failure.position : null;
  return (
    <>
      {run.statement.offset === null ? <p className="apart">{run.statement.text}</p> : null}
      {run.kind === "failed" ? (
        <FailurePanel
          failure={run.failure}
          onShowPosition={
            position === null || run.statement.offset === null ? null : () => onShowPosition(run.statement)
          }
        />
      ) : null}
      {run.output.kind === "stream" ? (
        <StreamResult key={run.id} output={run.output} startedAt={run.startedAt} finishedAt={finishedAt} />
      ) : null}
      {run.output.kind === "result" ? (
        <TableResult
          key={run.id}
          result={run.output}
          durationMs={(finishedAt ?? run.startedAt) - run.startedAt}
        />
      ) : null}
      {run.kind === "cancelled" && run.output.kind === "nothing" ? (
        <Empty title="Stopped">The statement was stopped before it returned anything.</Empty>
      ) : null}
    </>
  );
}
