import type { SQLNamespace } from "@codemirror/lang-sql";
import { type RefObject, useEffect, useRef } from "react";
import type { Problem } from "../../api/wire";
import { SqlEditor } from "../../sql/editor";

interface EditorPaneProps {
  readonly editor: RefObject<SqlEditor | null>;
  readonly initialText: string;
  readonly names: SQLNamespace;
  readonly onReady: () => void;
  readonly onRun: () => void;
  readonly onRunAll: () => void;
  readonly onChange: (text: string) => void;
  readonly onSelection: (hasSelection: boolean) => void;
  readonly onCheck: (text: string) => Promise<readonly Problem[]>;
}

/** Holds the editor's element. CodeMirror owns everything inside it; React renders it once. */
export function EditorPane(props: EditorPaneProps) {
  const { editor, initialText, names, onReady, onRun, onRunAll, onChange, onSelection, onCheck } = props;
  const host = useRef<HTMLDivElement>(null);
  const events = useRef({ onReady, onRun, onRunAll, onChange, onSelection, onCheck });
  events.current = { onReady, onRun, onRunAll, onChange, onSelection, onCheck };
  const firstText = useRef(initialText);

  useEffect(() => {
    if (host.current === null) return;
    const created = new SqlEditor(host.current, firstText.current, {
      onRun: () => events.current.onRun(),
      onRunAll: () => events.current.onRunAll(),
      onChange: (text) => events.current.onChange(text),
      onSelection: (hasSelection) => events.current.onSelection(hasSelection),
      onCheck: (text) => events.current.onCheck(text),
    });
    editor.current = created;
    created.focus();
    events.current.onReady();
    return () => {
      editor.current = null;
      created.destroy();
    };
  }, [editor]);

  useEffect(() => editor.current?.completeNames(names), [editor, names]);

  return <div className="editor" ref={host} />;
}
