import { lazy, type RefObject, Suspense, useCallback, useEffect, useState } from "react";
import { useLanguage } from "../../data/use-language";
import type { SqlEditor } from "../../sql/editor";
import { spanAt } from "../../sql/position";
import { Icon } from "../../ui/icons";
import { Splitter } from "../../ui/splitter";
import { ExplainDialog } from "./explain-dialog";
import { HistoryDialog } from "./history-dialog";
import { Results } from "./results";
import { isActive, isEffect, type RunStatement } from "./run-state";
import { Toolbar } from "./toolbar";
import { useExplained } from "./use-explained";
import { type RunEnvironment, useRun } from "./use-run";
import { useWorksheets } from "./use-worksheets";
import { EDITOR_PANEL, WorksheetTabs } from "./worksheet-tabs";

// CodeMirror is the largest part of the workspace: the toolbar and the explorer do not wait for it.
const EditorPane = lazy(() => import("./editor-pane").then((module) => ({ default: module.EditorPane })));

interface WorkspaceProps {
  readonly environment: Omit<RunEnvironment, "onFailure" | "onSuccess"> & {
    /** A statement has changed objects of the server. */
    readonly onEffect: () => void;
  };
  readonly editor: RefObject<SqlEditor | null>;
  /** Set by this component: runs a statement that is not from the editor. */
  readonly runApart: RefObject<(statement: string) => void>;
  /** Set by this component: opens a new worksheet. */
  readonly newWorksheet: RefObject<() => void>;
  readonly isShown: boolean;
  /** Called when the editor is there. */
  readonly onEditor: () => void;
}

export function Workspace(props: WorkspaceProps) {
  const { environment, editor, runApart, newWorksheet, isShown, onEditor } = props;
  const [height, setHeight] = useState(() => Math.round(window.innerHeight * 0.42));
  const [hasSelection, setHasSelection] = useState(false);
  const { worksheets, state: sheets, active, choose } = useWorksheets();
  const runner = useRun({
    ...environment,
    onSuccess: (result) => {
      if (isEffect(result)) environment.onEffect();
      editor.current?.checkAgain();
    },
    onFailure: (failure, statement) => {
      const { text, offset } = statement;
      if (failure.kind === "sql" && offset !== null) editor.current?.showFailure({ text, offset }, failure);
    },
  });
  const language = useLanguage();
  const { state, run, stop } = runner;
  const isRunning = isActive(state.current);

  const start = useCallback(
    (statements: readonly RunStatement[] | undefined) => {
      if (statements === undefined || statements.length === 0) return;
      editor.current?.clearFailure();
      run(statements);
    },
    [editor, run],
  );

  useEffect(() => {
    runApart.current = (text) => start([{ text, offset: null }]);
  }, [runApart, start]);

  const explained = useExplained(environment, start);
  const { isPlanning, cancel } = explained;
  const cancelOrStop = useCallback(() => (isPlanning ? cancel() : stop()), [isPlanning, cancel, stop]);
  const isBusy = isRunning || isPlanning;

  useEffect(() => {
    if (!isBusy || !isShown) return;
    // The editor's own uses of Esc come first: an open completion list or search panel.
    const onKey = (event: KeyboardEvent) => {
      if (
        event.key === "Escape" &&
        !event.defaultPrevented &&
        document.querySelector("dialog[open]") === null
      )
        cancelOrStop();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [isBusy, isShown, cancelOrStop]);

  const showPosition = useCallback(
    (statement: RunStatement) => {
      if (statement.offset === null) return;
      const { current, earlier } = state;
      const failed = [...earlier, current].find(
        (one) => one.kind === "failed" && one.statement === statement,
      );
      if (failed?.kind !== "failed" || failed.failure.kind !== "sql" || failed.failure.position === null)
        return;
      editor.current?.goTo(statement.offset + spanAt(statement.text, failed.failure.position).from);
    },
    [editor, state],
  );

  const onNew = useCallback(() => {
    worksheets.create("", environment.currentContext());
    editor.current?.focus();
  }, [editor, environment, worksheets]);
  useEffect(() => {
    newWorksheet.current = onNew;
  }, [newWorksheet, onNew]);

  const [isHistory, setHistory] = useState(false);
  const runAtCursor = () => explained.run(editor.current?.statementsAtCursor() ?? []);
  const explain = () => {
    const [first] = editor.current?.statementsAtCursor() ?? [];
    if (first !== undefined) start([{ text: `EXPLAIN ${first.text}`, offset: null }]);
  };
  const runAll = () => start(editor.current?.allStatements());
  const format = () => void editor.current?.format();
  return (
    <main className="workspace">
      <h1 className="hidden">Workspace</h1>
      <WorksheetTabs worksheets={worksheets} state={sheets} onChoose={choose} onNew={onNew} />
      {sheets.notice === null ? null : (
        <div className="sheet-notice" role="status">
          <p>{sheets.notice}</p>
          <button
            type="button"
            className="ghost"
            aria-label="Dismiss the notice"
            onClick={() => worksheets.dismissNotice()}
          >
            <Icon name="close" />
          </button>
        </div>
      )}
      <Toolbar
        state={state}
        hasSelection={hasSelection}
        onRun={runAtCursor}
        onRunAll={runAll}
        isPlanning={isPlanning}
        onStop={cancelOrStop}
        onExplain={explain}
        onFormat={format}
        onHistory={() => setHistory(true)}
      />
      <div
        className="editor-frame"
        style={{ height }}
        id={EDITOR_PANEL}
        role="tabpanel"
        aria-label={active?.name ?? "Worksheet"}
      >
        <Suspense fallback={<div className="editor" aria-busy="true" />}>
          {active === null ? (
            <div className="editor" aria-busy="true" />
          ) : (
            <EditorPane
              editor={editor}
              sheet={active}
              language={language}
              onReady={onEditor}
              onRun={runAtCursor}
              onRunAll={runAll}
              onFormat={format}
              onChange={(text) => worksheets.edit(active.id, { text })}
              onSelection={setHasSelection}
              onCheck={(text) => environment.client.check(text, environment.currentContext())}
              onComplete={(text, offset, signal) =>
                environment.client.complete(text, offset, environment.currentContext(), signal)
              }
            />
          )}
        </Suspense>
      </div>
      <Splitter
        label="Height of the editor"
        orientation="horizontal"
        size={height}
        min={96}
        max={Math.max(160, window.innerHeight - 220)}
        onResize={setHeight}
      />
      <Results state={state} onShowPosition={showPosition} />
      {isHistory ? (
        <HistoryDialog
          onWrite={(statement) => editor.current?.insertStatement(statement)}
          onClose={() => setHistory(false)}
        />
      ) : null}
      {explained.shown === null ? null : (
        <ExplainDialog
          plan={explained.shown.plan}
          onCreate={() => start(explained.shown === null ? [] : [explained.shown.statement])}
          onClose={cancel}
        />
      )}
    </main>
  );
}
