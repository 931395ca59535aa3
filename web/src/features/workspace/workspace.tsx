import type { SQLNamespace } from "@codemirror/lang-sql";
import { lazy, type RefObject, Suspense, useCallback, useEffect, useRef, useState } from "react";
import { useLanguage } from "../../data/use-language";
import type { SqlEditor } from "../../sql/editor";
import { spanAt } from "../../sql/position";
import { Splitter } from "../../ui/splitter";
import { Results } from "./results";
import { isActive, isEffect, type RunStatement } from "./run-state";
import { Toolbar } from "./toolbar";
import { type RunEnvironment, useRun } from "./use-run";

// CodeMirror is the largest part of the workspace: the toolbar and the explorer do not wait for it.
const EditorPane = lazy(() => import("./editor-pane").then((module) => ({ default: module.EditorPane })));

// Of this tab and session only: statements may hold the passwords of stores.
const TEXT_KEY = "headrace.workspace.text";

interface WorkspaceProps {
  readonly environment: Omit<RunEnvironment, "onFailure" | "onSuccess"> & {
    /** A statement has changed objects of the server. */
    readonly onEffect: () => void;
  };
  readonly editor: RefObject<SqlEditor | null>;
  /** Set by this component: runs a statement that is not from the editor. */
  readonly runApart: RefObject<(statement: string) => void>;
  readonly names: SQLNamespace;
  readonly isShown: boolean;
  /** Called when the editor is there. */
  readonly onEditor: () => void;
}

export function Workspace(props: WorkspaceProps) {
  const { environment, editor, runApart, names, isShown, onEditor } = props;
  const [height, setHeight] = useState(() => Math.round(window.innerHeight * 0.42));
  const [hasSelection, setHasSelection] = useState(false);
  const keptText = useRef(sessionStorage.getItem(TEXT_KEY));
  const [startingText, setStartingText] = useState("");
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
  const { client } = environment;
  const language = useLanguage();
  useEffect(() => {
    if (keptText.current !== null) return;
    client
      .quickStart()
      .then((text) => {
        if (editor.current === null) setStartingText(text);
        else editor.current.fillIfEmpty(text);
      })
      // A server that is away is reported by the banner; the editor stays empty.
      .catch(() => {});
  }, [client, editor]);
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

  useEffect(() => {
    if (!isRunning || !isShown) return;
    // The editor's own uses of Esc come first: an open completion list or search panel.
    const onKey = (event: KeyboardEvent) => {
      if (
        event.key === "Escape" &&
        !event.defaultPrevented &&
        document.querySelector("dialog[open]") === null
      )
        stop();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [isRunning, isShown, stop]);

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

  const runAtCursor = () => start(editor.current?.statementsAtCursor());
  const runAll = () => start(editor.current?.allStatements());
  return (
    <main className="workspace">
      <h1 className="hidden">Workspace</h1>
      <Toolbar
        state={state}
        hasSelection={hasSelection}
        onRun={runAtCursor}
        onRunAll={runAll}
        onStop={stop}
      />
      <div className="editor-frame" style={{ height }}>
        <Suspense fallback={<div className="editor" aria-busy="true" />}>
          <EditorPane
            editor={editor}
            initialText={keptText.current ?? startingText}
            language={language}
            names={names}
            onReady={onEditor}
            onRun={runAtCursor}
            onRunAll={runAll}
            onChange={(text) => sessionStorage.setItem(TEXT_KEY, text)}
            onSelection={setHasSelection}
            onCheck={(text) => environment.client.check(text, environment.currentContext())}
          />
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
    </main>
  );
}
