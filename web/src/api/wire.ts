/** The shapes of REST v2 answers, and the only place where untyped JSON becomes typed. */

export type Cell = string | null;
export type Row = readonly Cell[];

export interface Column {
  readonly name: string;
  readonly type: string;
  readonly nullable: boolean;
  /** The column that this page adds to a live changelog: the change to the row's key. */
  readonly isOp?: true;
  /** Part of the key of a live changelog. */
  readonly isKey?: true;
}

/** Context of a statement. Field names equal the request's; an absent field is unset. */
export interface StatementContext {
  readonly organization?: string;
  readonly role?: string;
  readonly database?: string;
  readonly schema?: string;
  readonly store?: string;
  readonly computePool?: string;
}

export interface DataplaneRequest {
  readonly token: string;
  readonly uri: string;
  readonly statementId: string;
  readonly requestType: string;
}

export interface StatementAnswer {
  readonly sqlState: string;
  readonly statementId: string;
  readonly message: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  readonly partitionCount: number;
  readonly context: StatementContext | null;
  readonly dataplane: DataplaneRequest | null;
}

export class UnreadableAnswer extends Error {}

type Json = Readonly<Record<string, unknown>>;

export function asObject(value: unknown): Json | null {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : null;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** A row as it came, with anything that is neither text nor null written out as JSON. */
export function readRow(value: unknown): Row {
  return list(value).map((cell) =>
    cell === null || cell === undefined ? null : typeof cell === "string" ? cell : JSON.stringify(cell),
  );
}

export function readColumns(value: unknown): readonly Column[] {
  return list(value).map((entry) => {
    const column = asObject(entry);
    return { name: text(column?.name), type: text(column?.type), nullable: column?.nullable !== false };
  });
}

const CONTEXT_FIELDS = [
  ["organizationID", "organization"],
  ["roleName", "role"],
  ["databaseName", "database"],
  ["schemaName", "schema"],
  ["storeName", "store"],
  ["computePoolName", "computePool"],
] as const;

function readContext(value: unknown): StatementContext | null {
  const sent = asObject(value);
  if (sent === null) return null;
  const context: { -readonly [field in keyof StatementContext]: string } = {};
  for (const [wireName, field] of CONTEXT_FIELDS) {
    const name = text(sent[wireName]);
    if (name !== "") context[field] = name;
  }
  return context;
}

function readDataplane(value: unknown): DataplaneRequest | null {
  const sent = asObject(value);
  if (sent === null) return null;
  return {
    token: text(sent.token),
    uri: text(sent.uri),
    statementId: text(sent.statementID),
    requestType: text(sent.requestType),
  };
}

/** Problem of a checked text; offsets count code points. */
export interface Problem {
  readonly severity: string;
  readonly sqlState: string;
  readonly message: string;
  readonly hint: string;
  readonly start: number;
  readonly end: number;
  /** Possible replacements of the marked text. */
  readonly replacements: readonly string[];
}

/** A statement of a checked text; offsets count code points. */
export interface Outline {
  /** Name of the statement in the server's grammar. */
  readonly kind: string;
  /** The SELECT of the statement. */
  readonly query: { readonly start: number; readonly end: number } | null;
}

/** Statements of a check's answer, without those that cannot be parsed. */
export function readOutlines(body: unknown): readonly Outline[] {
  return list(asObject(body)?.statements).map((entry) => {
    const sent = asObject(entry);
    const { start, end } = asObject(sent?.query) ?? {};
    return {
      kind: text(sent?.kind),
      query: typeof start === "number" && typeof end === "number" ? { start, end } : null,
    };
  });
}

/** Problems of a check's answer that have a position. */
export function readProblems(body: unknown): readonly Problem[] {
  return list(asObject(body)?.diagnostics).flatMap((entry) => {
    const sent = asObject(entry);
    const position = asObject(sent?.position);
    const { start, end } = position ?? {};
    if (typeof start !== "number" || typeof end !== "number") return [];
    return [
      {
        severity: text(sent?.severity),
        sqlState: text(sent?.sqlState),
        message: text(sent?.message),
        hint: text(sent?.hint),
        start,
        end,
        replacements: list(sent?.replacements).filter((entry) => typeof entry === "string"),
      },
    ];
  });
}

/** A text that can stand at a position. */
export interface Candidate {
  readonly label: string;
  readonly kind: string;
  readonly insert: string;
  /** A type, a signature or a default; empty if there is none. */
  readonly detail: string;
  readonly documentation: string;
}

/**
 * Candidates for the text from `start` to `end`, offsets in code points, most specific first; `opens`: they are to be shown before a
 * letter is typed.
 */
export interface Candidates {
  readonly start: number;
  readonly end: number;
  readonly candidates: readonly Candidate[];
  readonly opens?: boolean;
}

export function readCandidates(body: unknown): Candidates {
  const sent = asObject(body);
  return {
    start: Number(sent?.start ?? 0),
    end: Number(sent?.end ?? 0),
    opens: sent?.opens === true,
    candidates: list(sent?.candidates).map((entry) => {
      const each = asObject(entry);
      return {
        label: text(each?.label),
        kind: text(each?.kind),
        insert: text(each?.insert),
        detail: text(each?.detail),
        documentation: text(each?.documentation),
      };
    }),
  };
}

/** A property of WITH (…). */
export interface PropertyFacts {
  readonly name: string;
  /** Leading words of the statements that accept it. */
  readonly statements: readonly string[];
  readonly documentation: string;
  readonly default: string;
  /** Empty for a property that does not depend on the type of a store. */
  readonly storeType: string;
  readonly isSecret: boolean;
  /** All values of a property that has only a few. */
  readonly values: readonly string[];
}

/** The words of the server's language, in upper case. */
export interface Language {
  readonly words: readonly string[];
  readonly types: readonly string[];
  /** Names of the built-in functions. */
  readonly functions: readonly string[];
  readonly storeTypes: readonly string[];
  readonly properties: readonly PropertyFacts[];
  /** Privileges that GRANT can grant, by the kind of the object in GRANT. */
  readonly privileges: Readonly<Record<string, readonly string[]>>;
}

export function readLanguage(body: unknown): Language {
  const sent = asObject(body);
  return {
    words: list(sent?.words).map(text),
    types: list(sent?.types).map(text),
    functions: list(sent?.functions).map((entry) => text(asObject(entry)?.name)),
    storeTypes: list(sent?.storeTypes).map(text),
    properties: list(sent?.properties).map((entry) => {
      const each = asObject(entry);
      return {
        name: text(each?.name),
        statements: list(each?.statements).map(text),
        documentation: text(each?.documentation),
        default: text(each?.default),
        storeType: text(each?.storeType),
        isSecret: each?.secret === true,
        values: list(each?.values).map(text),
      };
    }),
    privileges: Object.fromEntries(
      list(sent?.privileges).map((entry) => {
        const each = asObject(entry);
        return [text(each?.kind), list(each?.privileges).map(text)];
      }),
    ),
  };
}

/** Reads a 200 or 202 answer; throws UnreadableAnswer when it is not one. */
export function readAnswer(body: unknown): StatementAnswer {
  const answer = asObject(body);
  if (answer === null || typeof answer.sqlState !== "string") {
    throw new UnreadableAnswer("The response is not a statement result: it has no sqlState.");
  }
  const metadata = asObject(answer.metadata);
  return {
    sqlState: answer.sqlState,
    statementId: text(answer.statementID),
    message: text(answer.message),
    columns: readColumns(metadata?.columns),
    rows: list(answer.data).map(readRow),
    partitionCount: Math.max(1, list(metadata?.partitionInfo).length),
    context: readContext(metadata?.context),
    dataplane: readDataplane(metadata?.dataplaneRequest),
  };
}
