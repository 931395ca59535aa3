import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter } from "@codemirror/lint";
import { EditorState, Prec } from "@codemirror/state";
import { drawSelection, EditorView, keymap, lineNumbers } from "@codemirror/view";
import { graphql, updateSchema } from "cm6-graphql";
import type { GraphQLSchema } from "graphql";
import { useEffect, useRef } from "react";
import { editorTheme, highlighting } from "../../sql/editor-theme";

interface OperationEditorProps {
  readonly start: string;
  /** Null before it is there: the editor then neither completes nor checks. */
  readonly schema: GraphQLSchema | null;
  readonly onChange: (text: string) => void;
  readonly onRun: () => void;
}

/** The editor of operations, which completes and checks by the schema. */
export function OperationEditor({ start, schema, onChange, onRun }: OperationEditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const events = useRef({ start, onChange, onRun });
  events.current = { start, onChange, onRun };

  useEffect(() => {
    if (host.current === null) return;
    const run = () => {
      events.current.onRun();
      return true;
    };
    const created = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: events.current.start,
        extensions: [
          Prec.highest(keymap.of([{ key: "Mod-Enter", run }])),
          // Without a list, Tab moves the focus on.
          Prec.high(keymap.of([{ key: "Tab", run: acceptCompletion }])),
          lineNumbers(),
          lintGutter(),
          history(),
          drawSelection(),
          indentUnit.of("  "),
          bracketMatching(),
          closeBrackets(),
          autocompletion({ icons: false }),
          syntaxHighlighting(highlighting),
          editorTheme,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "Operation", tabindex: "0" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) events.current.onChange(update.state.doc.toString());
          }),
          keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
          graphql(),
        ],
      }),
    });
    view.current = created;
    return () => {
      view.current = null;
      created.destroy();
    };
  }, []);

  useEffect(() => {
    if (view.current !== null && schema !== null) updateSchema(view.current, schema);
  }, [schema]);

  return <div className="editor" ref={host} />;
}
