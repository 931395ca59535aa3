/** Finds the statements in an editor's text: split at top-level `;`, with quotes, comments and applications respected. */

export interface Statement {
  /** Offsets into the text: from the first character that is no comment or space, to behind the `;`. */
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

type Token = {
  readonly kind: "space" | "comment" | "quoted" | "word" | "end" | "other";
  readonly to: number;
};

const SPACE = /\s/;
const WORD = /[\p{L}\p{N}_$]/u;

/** An unclosed quote or block comment runs to the end of the text, and belongs to its statement, which is refused for it. */
function tokenAt(text: string, at: number): Token {
  const first = text.charAt(at);
  const pair = text.slice(at, at + 2);
  if (SPACE.test(first)) return { kind: "space", to: at + 1 };
  if (pair === "--") return { kind: "comment", to: endOf(text, "\n", at) };
  if (pair === "/*") {
    const isClosed = text.includes("*/", at + 2);
    return { kind: isClosed ? "comment" : "other", to: endOf(text, "*/", at + 2) };
  }
  if (pair === "$$") return { kind: "quoted", to: endOf(text, "$$", at + 2) };
  // A doubled quote inside a literal reads as two literals side by side: the same for splitting.
  if (first === "'" || first === '"' || first === "`")
    return { kind: "quoted", to: endOf(text, first, at + 1) };
  if (first === ";") return { kind: "end", to: at + 1 };
  if (!WORD.test(first)) return { kind: "other", to: at + 1 };
  let to = at + 1;
  while (to < text.length && WORD.test(text.charAt(to))) to++;
  return { kind: "word", to };
}

function endOf(text: string, mark: string, from: number): number {
  const start = text.indexOf(mark, from);
  return start < 0 ? text.length : start + mark.length;
}

export function splitStatements(text: string): readonly Statement[] {
  const statements: Statement[] = [];
  let from = -1;
  let to = 0;
  let words: string[] = [];
  let isInApplication = false;

  function finish(end: number): void {
    if (from >= 0) statements.push({ from, to: end, text: text.slice(from, end) });
    from = -1;
    words = [];
    isInApplication = false;
  }

  for (let at = 0; at < text.length; ) {
    const token = tokenAt(text, at);
    if (token.kind === "word") {
      words = [...words.slice(-1), text.slice(at, token.to).toUpperCase()];
      const pair = words.join(" ");
      if (pair === "BEGIN APPLICATION") isInApplication = true;
      if (pair === "END APPLICATION") isInApplication = false;
    } else if (token.kind === "quoted" || token.kind === "other") {
      words = [];
    }
    if (token.kind === "end") {
      if (from >= 0 && !isInApplication) finish(token.to);
    } else if (token.kind !== "space" && token.kind !== "comment") {
      if (from < 0) from = at;
      to = token.to;
    }
    at = token.to;
  }
  finish(to);
  return statements;
}

/**
 * The statement that "run" means at a cursor: the one around it, the one just ended on its line, the next one below,
 * or the last one.
 */
export function statementAt(text: string, cursor: number): Statement | null {
  const statements = splitStatements(text);
  let before: Statement | null = null;
  for (const statement of statements) {
    if (statement.from > cursor) {
      const isOnSameLine = before !== null && !text.slice(before.to, cursor).includes("\n");
      return isOnSameLine ? before : statement;
    }
    if (cursor <= statement.to) return statement;
    before = statement;
  }
  return before;
}
