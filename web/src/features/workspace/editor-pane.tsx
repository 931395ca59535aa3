import { type RefObject, useEffect, useRef } from "react";
import type { Candidates, Language, Problem } from "../../api/wire";
import { SqlEditor } from "../../sql/editor";
import type { Worksheet } from "./worksheets";

interface EditorPaneProps {
  readonly editor: RefObject<SqlEditor | null>;
  readonly sheet: Worksheet;
  /** Null while it is on its way. */
  readonly language: Language | null;
  readonly onReady: () => void;
  readonly onRun: () => void;
  readonly onRunAll: () => void;
  readonly onFormat: () => void;
  readonly onChange: (text: string) => void;
  readonly onSelection: (hasSelection: boolean) => void;
  readonly onCheck: (text: string) => Promise<readonly Problem[]>;
  readonly onComplete: (text: string, offset: number, signal: AbortSignal) => Promise<Candidates | null>;
}

/** Holds the editor's element. CodeMirror owns everything inside it; React renders it once. */
export function EditorPane(props: EditorPaneProps) {
  const { editor, sheet, language } = props;
  const { onReady, onRun, onRunAll, onFormat, onChange, onSelection, onCheck, onComplete } = props;
  const host = useRef<HTMLDivElement>(null);
  const events = useRef({ onReady, onRun, onRunAll, onFormat, onChange, onSelection, onCheck, onComplete });
  events.current = { onReady, onRun, onRunAll, onFormat, onChange, onSelection, onCheck, onComplete };
  const shown = useRef(sheet);
  shown.current = sheet;

  useEffect(() => {
    if (host.current === null) return;
    const created = new SqlEditor(host.current, {
      onRun: () => events.current.onRun(),
      onRunAll: () => events.current.onRunAll(),
      onFormat: () => events.current.onFormat(),
      onChange: (text) => events.current.onChange(text),
      onSelection: (hasSelection) => events.current.onSelection(hasSelection),
      onCheck: (text) => events.current.onCheck(text),
      onComplete: (text, offset, signal) => events.current.onComplete(text, offset, signal),
    });
    created.show(shown.current.id, shown.current.text);
    editor.current = created;
    created.focus();
    events.current.onReady();
    return () => {
      editor.current = null;
      created.destroy();
    };
  }, [editor]);

  const { id, revision } = sheet;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new revision is the reason to show the text anew; typing is none.
  useEffect(() => editor.current?.show(id, shown.current.text), [editor, id, revision]);

  useEffect(() => {
    if (language !== null) editor.current?.setLanguage(language);
  }, [editor, language]);

  return <div className="editor" ref={host} />;
}
