/** Marks the lines of the statement that Run would run. */

import { RangeSetBuilder } from "@codemirror/state";
import {
  Decoration,
  type DecorationSet,
  type EditorView,
  ViewPlugin,
  type ViewUpdate,
} from "@codemirror/view";
import { statementAt } from "./split";

const MARK = Decoration.line({ class: "cm-activeStatement" });

function decorations(view: EditorView): DecorationSet {
  const builder = new RangeSetBuilder<Decoration>();
  const { doc, selection } = view.state;
  const statement = selection.main.empty ? statementAt(doc.toString(), selection.main.head) : null;
  if (statement !== null) {
    const last = doc.lineAt(statement.to).number;
    for (let line = doc.lineAt(statement.from).number; line <= last; line++) {
      const { from } = doc.line(line);
      builder.add(from, from, MARK);
    }
  }
  return builder.finish();
}

class ActiveStatement {
  decorations: DecorationSet;

  constructor(view: EditorView) {
    this.decorations = decorations(view);
  }

  update(update: ViewUpdate): void {
    if (update.docChanged || update.selectionSet) this.decorations = decorations(update.view);
  }
}

export const activeStatement = ViewPlugin.fromClass(ActiveStatement, {
  decorations: (plugin) => plugin.decorations,
});
