/** Failures between this page and the server, and the parts of a SQL error's text. */

/** Position counted from one, as the server counts; a column counts code points. */
export interface TextPosition {
  readonly line: number;
  readonly column: number;
}

export interface SqlFailure {
  readonly kind: "sql";
  readonly sqlState: string;
  readonly message: string;
  readonly details: readonly string[];
  readonly hint: string;
  readonly position: TextPosition | null;
}

export interface ConnectionFailure {
  /** denied: the token was refused. away: no server answered. broken: an answer this page cannot use. */
  readonly kind: "denied" | "away" | "broken";
  readonly message: string;
  readonly hint: string;
}

export type Failure = SqlFailure | ConnectionFailure;

/** Carries a Failure through promises. */
export class RequestFailed extends Error {
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

const POSITION = /\bline\s+(\d+)\s*[,:;]?\s*(?:col(?:umn)?|char(?:acter)?)\s+(\d+)/i;
const TRAILING_POSITION = /\s*(?:,|\(|\bat\b|\bon\b|\bin\b|\s)*\bline\s+\d+\s*,?\s*column\s+\d+\)?\.?\s*$/i;
const HINT = /^\s*hint\s*:\s*/i;

/** Splits a server message: first line, further lines, `Hint: …` and `line L, column C`, wherever they stand. */
export function readSqlFailure(sqlState: string, serverMessage: string): SqlFailure {
  const hints: string[] = [];
  const lines: string[] = [];
  let insideHint = false;
  for (const line of serverMessage.replaceAll("\r\n", "\n").split("\n")) {
    if (HINT.test(line)) {
      insideHint = true;
      hints.push(line.replace(HINT, "").trim());
    } else if (insideHint && line.trim() !== "") {
      hints.push(line.trim());
    } else if (line.trim() !== "") {
      lines.push(line.trimEnd());
    }
  }
  const match = POSITION.exec(serverMessage);
  const position = match === null ? null : { line: Number(match[1]), column: Number(match[2]) };
  const isUsable = position !== null && position.line >= 1 && position.column >= 1;
  return {
    kind: "sql",
    sqlState,
    message: withoutPosition(lines[0] ?? "") || `The statement failed with SQLSTATE ${sqlState}.`,
    details: lines.slice(1),
    hint: hints.join(" "),
    position: isUsable ? position : null,
  };
}

/** The position is shown beside the message, and underlined in the editor. */
function withoutPosition(line: string): string {
  return line.replace(TRAILING_POSITION, "").trim();
}

export function denied(message: string): ConnectionFailure {
  return {
    kind: "denied",
    message: message || "The server did not accept the token.",
    hint: "Sign in again with a token that is valid for this server.",
  };
}

export function away(): ConnectionFailure {
  return {
    kind: "away",
    message: "The server does not answer.",
    hint: "Check that Headrace is running; this page reconnects by itself.",
  };
}

export function broken(message: string): ConnectionFailure {
  return { kind: "broken", message, hint: "See the server's log for details." };
}

export function failureOf(error: unknown): Failure {
  if (error instanceof RequestFailed) return error.failure;
  return broken(error instanceof Error ? error.message : String(error));
}
