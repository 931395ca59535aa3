import { durationText } from "../../grid/values";
import { Icon } from "../../ui/icons";
import { COMMAND_KEY } from "../../ui/keys";
import { useNow } from "../../ui/use-now";
import { isActive, type Run, type RunState } from "./run-state";

interface ToolbarProps {
  readonly state: RunState;
  readonly hasSelection: boolean;
  /** True while the server plans a statement, before it runs. */
  readonly isPlanning: boolean;
  readonly onRun: () => void;
  readonly onRunAll: () => void;
  readonly onStop: () => void;
  readonly onExplain: () => void;
  readonly onFormat: () => void;
  readonly onHistory: () => void;
}

export function Toolbar(props: ToolbarProps) {
  const { state, hasSelection, isPlanning, onRun, onRunAll, onStop, onExplain, onFormat, onHistory } = props;
  const isRunning = isActive(state.current);
  return (
    <div className="toolbar" role="toolbar" aria-label="Run">
      <button type="button" className="primary" onClick={onRun} title={`${COMMAND_KEY}+Enter`}>
        <Icon name="play" /> {hasSelection ? "Run selection" : "Run statement"}
        <span className="keys" aria-hidden="true">
          {COMMAND_KEY} ↵
        </span>
      </button>
      <button type="button" className="secondary" onClick={onRunAll} title={`${COMMAND_KEY}+Shift+Enter`}>
        Run all
      </button>
      <button
        type="button"
        className="secondary stop"
        onClick={onStop}
        disabled={!isRunning && !isPlanning}
        title="Esc"
      >
        <Icon name="stop" /> Stop
      </button>
      <button
        type="button"
        className="ghost"
        onClick={onExplain}
        title="Show how the statement would run, without running it"
      >
        <Icon name="lineage" /> <span>Explain</span>
      </button>
      <button
        type="button"
        className="ghost"
        onClick={onFormat}
        title={`Lay out the ${hasSelection ? "selection" : "statements"}: ${COMMAND_KEY}+Shift+F`}
      >
        <Icon name="write" /> <span>Format</span>
      </button>
      <button type="button" className="ghost" onClick={onHistory} title="Statements that you ran">
        <Icon name="undo" /> <span>History</span>
      </button>
      <RunStatus run={state.current} remaining={state.remaining} isPlanning={isPlanning} />
    </div>
  );
}

const WORDS = {
  idle: "Ready",
  submitting: "Running",
  streaming: "Streaming",
  done: "Finished",
  cancelled: "Stopped",
  failed: "Failed",
} as const;

interface RunStatusProps {
  readonly run: Run;
  readonly remaining: number;
  readonly isPlanning: boolean;
}

function RunStatus({ run, remaining, isPlanning }: RunStatusProps) {
  const now = useNow(run.kind === "submitting");
  const isStarting = run.kind === "streaming" && run.output.columns === null;
  const notRun = remaining > 0 && !isActive(run) && run.kind !== "done";
  return (
    <p className="run-status">
      <span className={`dot ${isPlanning ? "submitting" : run.kind}`} aria-hidden="true" />
      <span role="status" data-testid="run-state" data-state={run.kind}>
        {isPlanning ? "Planning" : isStarting ? "Starting" : WORDS[run.kind]}
      </span>
      {run.kind === "submitting" ? <span className="soft">{durationText(now - run.startedAt)}</span> : null}
      {remaining > 0 && isActive(run) ? <span className="soft">{remaining} more to run</span> : null}
      {notRun ? <span className="soft">{remaining} not run</span> : null}
    </p>
  );
}
