/** Completion by position: the server's grammar and catalog decide what can be typed where. */

import {
  type Completion,
  type CompletionContext,
  type CompletionResult,
  type CompletionSource,
  insertCompletionText,
  pickedCompletion,
  startCompletion,
} from "@codemirror/autocomplete";
import type { EditorView } from "@codemirror/view";
import type { Candidate, Candidates } from "../api/wire";
import { codePointsOf, unitsOf } from "./position";

/** Asks the server for the candidates at an offset of a text, which counts code points. */
export type Ask = (text: string, offset: number, signal: AbortSignal) => Promise<Candidates | null>;

/** The server leaves out further candidates, so that a longer prefix needs another answer. */
const CANDIDATES_MAX = 500;
/** Text that opens the list while it is typed: the first letters of a name, a dot or a quote. Ctrl+Space opens it anywhere. */
const OPENING = /(?:(?<![\p{L}\p{N}_$])[\p{L}_][\p{L}\p{N}_$]*|["'`.])$/u;
/** A blank after a word asks too: the server decides if the list opens, as it does where the statement must continue. */
const BLANK = /[\p{L}\p{N}_$] $/u;
/** A name or a simple string that is being typed, with its opening quote. */
const NAME = /^["'`]?[\p{L}\p{N}_.$-]*$/u;

/** Completes from the server. A change of the text drops the answers that are on their way. */
export function completionSource(ask: Ask): CompletionSource {
  return async (context) => {
    const opens = context.explicit || context.matchBefore(OPENING) !== null;
    if (!opens && context.matchBefore(BLANK) === null) return null;
    const text = context.state.doc.toString();
    const controller = new AbortController();
    context.addEventListener("abort", () => controller.abort(), { onDocChange: true });
    const answer = await ask(text, codePointsOf(text, context.pos), controller.signal).catch(() => null);
    if (answer === null || context.aborted || !(opens || answer.opens === true)) return null;
    return resultOf(text, context.pos, answer);
  };
}

/** The list for an answer: in the server's order, narrowed here while the name is typed on. */
export function resultOf(text: string, position: number, answer: Candidates): CompletionResult | null {
  const from = Math.min(unitsOf(text, answer.start), position);
  const to = Math.max(unitsOf(text, answer.end), position);
  const isWhole = answer.candidates.length < CANDIDATES_MAX;
  const options = answer.candidates.map(optionOf);
  return listed(options, text.slice(from, position), {
    from,
    to,
    filter: false,
    update: (_, from, to, context) => (isWhole ? narrowed(options, from, to, context) : null),
  });
}

/** Null if the server must be asked again. */
function narrowed(
  options: readonly Completion[],
  from: number,
  to: number,
  context: CompletionContext,
): CompletionResult | null {
  const typed = context.state.sliceDoc(from, context.pos);
  if (!NAME.test(typed)) return null;
  return listed(options, typed, {
    from,
    to,
    filter: false,
    update: (_, from, to, context) => narrowed(options, from, to, context),
  });
}

/** The options that begin with what is typed; none if it is a whole word already, whose Enter is a new line. */
function listed(
  all: readonly Completion[],
  typed: string,
  result: Omit<CompletionResult, "options">,
): CompletionResult | null {
  const prefix = typed.replace(/^["'`]/, "").toLowerCase();
  const options = all.filter((option) => option.label.toLowerCase().startsWith(prefix));
  const isDone = options.every((option) => option.label.toLowerCase() === prefix);
  return isDone ? null : { ...result, options };
}

function optionOf({ label, kind, insert, detail, documentation }: Candidate): Completion {
  return {
    label,
    type: kind,
    detail: detail === "" ? kind : detail,
    ...(documentation === "" ? {} : { info: documentation }),
    apply: (view, completion, from, to) => {
      insertText(view, completion, insert, from, to);
      // The value comes next.
      if (kind === "property" && insert.endsWith("= ")) startCompletion(view);
    },
  };
}

function insertText(view: EditorView, completion: Completion, text: string, from: number, to: number): void {
  view.dispatch({
    ...insertCompletionText(view.state, text, from, to),
    annotations: pickedCompletion.of(completion),
  });
}
