/** The CodeMirror editor, behind the few functions that the page needs. */

import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, isolateHistory } from "@codemirror/commands";
import { bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { type Action, type Diagnostic, linter, lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Annotation, Compartment, EditorState, type Extension, Prec, StateEffect } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import type { SqlFailure } from "../api/failures";
import type { Candidates, Language, Problem } from "../api/wire";
import { activeStatement } from "./active-statement";
import { completionSource } from "./completion";
import { dialectOf, plainDialect } from "./dialect";
import { editorTheme, highlighting } from "./editor-theme";
import { type Span, spanAt, spanOf } from "./position";
import { type Statement, splitStatements, statementAt } from "./split";

export interface EditorEvents {
  readonly onRun: () => void;
  readonly onRunAll: () => void;
  readonly onFormat: () => void;
  readonly onChange: (text: string) => void;
  readonly onSelection: (hasSelection: boolean) => void;
  /** Called with the text to find its problems. */
  readonly onCheck: (text: string) => Promise<readonly Problem[]>;
  /** Called with the text and an offset in code points, to find what can be typed there. */
  readonly onComplete: (text: string, offset: number, signal: AbortSignal) => Promise<Candidates | null>;
}

/** Pause in typing before the text is checked. */
const CHECK_DELAY_MS = 200;
/** Pause in typing before the text is completed. */
const COMPLETION_DELAY_MS = 80;
const checkAgain = StateEffect.define();
/** Marks a change that is not the user's. */
const elsewhere = Annotation.define<true>();

interface PlacedText {
  readonly text: string;
  readonly offset: number;
}

export class SqlEditor {
  readonly #view: EditorView;
  readonly #extensions: Extension;
  readonly #language = new Compartment();
  #words: Extension = plainDialect.extension;
  /** The states of the texts that are not shown now. */
  readonly #states = new Map<string, EditorState>();
  #shown: string | null = null;

  constructor(parent: HTMLElement, events: EditorEvents) {
    this.#extensions = [
      runKeys(events),
      baseExtensions(),
      this.#language.of(plainDialect.extension),
      changes(events),
      checks(events),
      completions(events),
    ];
    this.#view = new EditorView({ parent, state: this.#stateOf("") });
  }

  /** Shows a text: another one with a history of its own, or the present one after it was replaced elsewhere. */
  show(id: string, text: string): void {
    if (id !== this.#shown) {
      if (this.#shown !== null) this.#states.set(this.#shown, this.#view.state);
      this.#shown = id;
      this.#view.setState(this.#states.get(id) ?? this.#stateOf(text));
      this.#view.dispatch({ effects: this.#language.reconfigure(this.#words) });
    }
    const { doc } = this.#view.state;
    if (doc.toString() === text) return;
    this.#view.dispatch({
      changes: { from: 0, to: doc.length, insert: text },
      annotations: elsewhere.of(true),
    });
  }

  #stateOf(text: string): EditorState {
    return EditorState.create({ doc: text, extensions: this.#extensions });
  }

  /** The selected statements, or the one under the cursor. */
  statementsAtCursor(): readonly PlacedText[] {
    const { main } = this.#view.state.selection;
    const text = this.#view.state.doc.toString();
    if (!main.empty) return placed(splitStatements(text.slice(main.from, main.to)), main.from);
    const statement = statementAt(text, main.head);
    return statement === null ? [] : placed([statement], 0);
  }

  allStatements(): readonly PlacedText[] {
    return placed(splitStatements(this.#view.state.doc.toString()), 0);
  }

  /** Lays out the selected statements, or all of them. One undo takes it back. */
  async format(): Promise<void> {
    const { state } = this.#view;
    const { main } = state.selection;
    const range = main.empty ? { from: 0, to: state.doc.length } : main;
    const { layoutChanges } = await import("./format");
    // The user may have typed, or shown another text, while the formatter was loaded.
    if (this.#view.state.doc !== state.doc) return;
    const changes = layoutChanges(state.sliceDoc(range.from, range.to));
    this.#view.dispatch({
      changes: changes.map(({ from, to, insert }) => ({
        from: from + range.from,
        to: to + range.from,
        insert,
      })),
      annotations: isolateHistory.of("full"),
    });
    this.#view.focus();
  }

  /** Puts a statement behind the text and selects it, so that the next Run runs it. */
  insertStatement(statement: string): void {
    const { doc } = this.#view.state;
    const end = doc.toString().trimEnd().length;
    const lead = end === 0 ? "" : "\n\n";
    const from = end + lead.length;
    this.#view.dispatch({
      changes: { from: end, to: doc.length, insert: `${lead}${statement}\n` },
      selection: { anchor: from + statement.length },
      effects: EditorView.scrollIntoView(from, { y: "center" }),
    });
    this.#view.focus();
  }

  /** Underlines where a statement failed, unless its text has been changed since it was run. */
  showFailure(statement: PlacedText, failure: SqlFailure): void {
    const { state } = this.#view;
    const end = statement.offset + statement.text.length;
    if (failure.position === null || state.sliceDoc(statement.offset, end) !== statement.text) return;
    const span = spanAt(statement.text, failure.position);
    const from = statement.offset + span.from;
    const diagnostic = diagnosticOf({ from, to: statement.offset + span.to }, failure);
    this.#view.dispatch(setDiagnostics(state, [diagnostic]), {
      effects: EditorView.scrollIntoView(diagnostic.from, { y: "nearest", yMargin: 40 }),
    });
  }

  /** Moves the cursor to where a statement failed. */
  goTo(offset: number): void {
    this.#view.dispatch({
      selection: { anchor: Math.min(offset, this.#view.state.doc.length) },
      scrollIntoView: true,
    });
    this.#view.focus();
  }

  /** A statement ran, so earlier errors of the text may be outdated. */
  checkAgain(): void {
    this.#view.dispatch({ effects: checkAgain.of(null) });
  }

  clearFailure(): void {
    this.#view.dispatch(setDiagnostics(this.#view.state, []));
  }

  /** Highlights the words of a language. */
  setLanguage(language: Language): void {
    this.#words = dialectOf(language).extension;
    this.#view.dispatch({ effects: this.#language.reconfigure(this.#words) });
  }

  focus(): void {
    this.#view.focus();
  }

  destroy(): void {
    this.#view.destroy();
  }
}

function placed(statements: readonly Statement[], start: number): readonly PlacedText[] {
  return statements.map(({ text, from }) => ({ text, offset: start + from }));
}

function diagnosticOf(
  span: Span,
  { sqlState, message, hint }: { sqlState: string; message: string; hint: string },
): Diagnostic {
  return {
    ...span,
    severity: "error",
    source: sqlState,
    message: hint === "" ? message : `${message}\n${hint}`,
  };
}

/** Underlines what is wrong while the text is written. That something exists already is no news: its statement was run. */
function checks(events: EditorEvents): Extension {
  return linter(
    async (view) => {
      const text = view.state.doc.toString();
      const problems = await events.onCheck(text).catch(() => []);
      return problems
        .filter((problem) => problem.severity === "error")
        .map((problem) => {
          const span = spanOf(text, problem.start, problem.end);
          return {
            ...diagnosticOf(span, problem),
            actions: fixesOf(text.slice(span.from, span.to), problem),
          };
        });
    },
    {
      delay: CHECK_DELAY_MS,
      needsRefresh: (update) =>
        update.transactions.some((transaction) =>
          transaction.effects.some((effect) => effect.is(checkAgain)),
        ),
    },
  );
}

/** Quick fixes: a click replaces the marked text. */
function fixesOf(marked: string, { replacements }: Problem): Action[] {
  // A suggested name is that of the last part of a dotted one, and would take the others away.
  if (marked.includes(".")) return [];
  return replacements.map((replacement) => ({
    name: replacement === "" ? "Remove" : `Write ${replacement}`,
    apply: (view, from, to) => view.dispatch({ changes: { from, to, insert: replacement } }),
  }));
}

function runKeys(events: EditorEvents): Extension {
  const bind = (key: string, action: () => void) => ({
    key,
    run: () => {
      action();
      return true;
    },
  });
  return Prec.highest(
    keymap.of([
      bind("Mod-Shift-Enter", events.onRunAll),
      bind("Mod-Enter", events.onRun),
      bind("Mod-Shift-f", events.onFormat),
    ]),
  );
}

function changes(events: EditorEvents): Extension {
  return EditorView.updateListener.of((update) => {
    const isTyped = !update.transactions.some((transaction) => transaction.annotation(elsewhere) === true);
    if (update.docChanged && isTyped) events.onChange(update.state.doc.toString());
    if (update.selectionSet || update.docChanged) events.onSelection(!update.state.selection.main.empty);
  });
}

/** Completes by the server, after a pause in typing or with Ctrl+Space. */
function completions(events: EditorEvents): Extension {
  return [
    autocompletion({
      icons: false,
      override: [completionSource((...position) => events.onComplete(...position))],
      activateOnTypingDelay: COMPLETION_DELAY_MS,
    }),
    // Without a list, Tab moves the focus on.
    Prec.high(keymap.of([{ key: "Tab", run: acceptCompletion }])),
  ];
}

function baseExtensions(): Extension {
  return [
    lineNumbers(),
    lintGutter(),
    highlightActiveLineGutter(),
    highlightActiveLine(),
    highlightSpecialChars(),
    highlightSelectionMatches(),
    history(),
    drawSelection(),
    EditorState.allowMultipleSelections.of(true),
    indentOnInput(),
    indentUnit.of("  "),
    bracketMatching(),
    closeBrackets(),
    syntaxHighlighting(highlighting),
    activeStatement,
    editorTheme,
    EditorView.lineWrapping,
    EditorView.contentAttributes.of({ "aria-label": "SQL editor", tabindex: "0" }),
    keymap.of([
      ...closeBracketsKeymap,
      ...defaultKeymap,
      ...searchKeymap,
      ...historyKeymap,
      ...completionKeymap,
    ]),
  ];
}
