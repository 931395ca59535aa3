/** The control plane: submit a statement, poll it, gather its partitions. */

import {
  away,
  broken,
  type ConnectionFailure,
  denied,
  type Failure,
  RequestFailed,
  readSqlFailure,
} from "./failures";
import { graphqlPath, readData } from "./graphql";
import type { TypedDocumentString } from "./operations";
import { openPush, type Push } from "./push";
import {
  asObject,
  type Candidates,
  type Column,
  type DataplaneRequest,
  type Language,
  type Outline,
  type Problem,
  type Row,
  readAnswer,
  readCandidates,
  readLanguage,
  readOutlines,
  readProblems,
  type StatementAnswer,
  type StatementContext,
  UnreadableAnswer,
} from "./wire";
import { readSavedWorksheet, type SavedWorksheet, survivesPage, type WorksheetDraft } from "./worksheets";

const SUCCESS = "00000";
const STILL_RUNNING = "03000";
const POLL_INTERVAL_MS = 500;
/** A user who signs out waits for the worksheets to be saved, at most this long. */
const SAVE_TIMEOUT_MS = 5000;
/** The server that serves this page also answers it. */
const apiBase = () => new URL("/v2/", location.origin);
/** Result sets are read partition by partition until this many rows are here. */
const RESULT_ROWS_MAX = 10_000;

export interface ResultSet {
  readonly kind: "result";
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  readonly isTruncated: boolean;
  readonly message: string;
  readonly context: StatementContext | null;
}

export interface StreamOffer {
  readonly kind: "stream";
  readonly request: DataplaneRequest;
  /** Message for a reader while no row has come; empty if every record is read. */
  readonly message: string;
  readonly context: StatementContext | null;
}

export type Outcome = ResultSet | StreamOffer;

/** Parts of the console that a setting of the server switches on. */
export interface ConsoleParts {
  readonly graphiql: boolean;
}

export interface GraphQLOperation {
  readonly query: string;
  readonly variables: Readonly<Record<string, unknown>> | null;
  readonly operationName: string | null;
}

export interface StatementRequest {
  readonly statement: string;
  readonly context: StatementContext;
  readonly signal?: AbortSignal;
}

/** The one door to the server. Every method throws RequestFailed, or AbortError when its signal fires. */
export class StatementClient {
  readonly #base: URL;
  readonly #token: string;
  /** The server lets sessions take turns. */
  readonly #session = crypto.getRandomValues(new Uint32Array(4)).join("-");
  readonly #watchers = new Set<(failure: Failure) => void>();

  /** Requests without a token carry the cookie of a session. */
  constructor(token: string, base: URL = apiBase()) {
    this.#token = token;
    this.#base = base;
  }

  /** Tells of every failure, whichever request found out. Returns how to stop that. */
  watchFailures(watcher: (failure: Failure) => void): () => void {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** Runs one request to its end and returns a result set, or the offer of a stream. */
  async run({ statement, context, signal }: StatementRequest): Promise<Outcome> {
    const form = new FormData();
    const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
    const parameters = { timezone, sessionID: this.#session };
    form.append("request", JSON.stringify({ statement, ...context, parameters }));
    let answer = await this.#ask("statements", { method: "POST", body: form }, signal);
    while (answer.sqlState === STILL_RUNNING) {
      await pause(POLL_INTERVAL_MS, signal);
      answer = await this.#ask(partitionPath(answer.statementId, 0), {}, signal);
    }
    if (answer.sqlState !== SUCCESS) {
      throw this.#reported(readSqlFailure(answer.sqlState, answer.message));
    }
    return answer.dataplane === null ? this.#gather(answer, signal) : offerOf(answer, answer.dataplane);
  }

  /** Words that can be typed at an offset of a text, which counts code points; null if the server cannot answer that. */
  async complete(
    text: string,
    offset: number,
    context: StatementContext,
    signal: AbortSignal,
  ): Promise<Candidates | null> {
    const parameters = { sessionID: `${this.#session}-complete` };
    const body = JSON.stringify({ statement: text, offset, ...context, parameters });
    const headers = { "Content-Type": "application/json" };
    const response = await this.#send("complete", { method: "POST", body, headers }, signal);
    return response.ok ? readCandidates(await response.json().catch(() => null)) : null;
  }

  /** Problems of a text, which is not run; none if the server cannot check it. */
  async check(text: string, context: StatementContext): Promise<readonly Problem[]> {
    return readProblems(await this.#checked(text, context, undefined));
  }

  /** The statements of a text, which is not run; none if the server cannot read it. */
  async outline(text: string, context: StatementContext, signal?: AbortSignal): Promise<readonly Outline[]> {
    return readOutlines(await this.#checked(text, context, signal));
  }

  async #checked(text: string, context: StatementContext, signal: AbortSignal | undefined): Promise<unknown> {
    const parameters = { sessionID: `${this.#session}-check` };
    const body = JSON.stringify({ statement: text, ...context, parameters });
    const headers = { "Content-Type": "application/json" };
    const response = await this.#send("validate", { method: "POST", body, headers }, signal);
    return response.ok ? response.json().catch(() => null) : null;
  }

  /** The language of the server's version. */
  async language(): Promise<Language> {
    const response = await this.#send("language", {}, undefined);
    if (!response.ok) throw this.#reported(failureOfStatus(response.status, null));
    return readLanguage(await response.json());
  }

  /** Saves a worksheet, also while the page is left. */
  async saveWorksheet(id: string, { context, ...draft }: WorksheetDraft): Promise<SavedWorksheet> {
    const { organization: _, ...names } = context;
    const body = JSON.stringify({ ...draft, ...names });
    const init = {
      method: "PUT",
      body,
      headers: { "Content-Type": "application/json" },
      keepalive: survivesPage(draft.text),
    };
    const response = await this.#send(worksheetPath(id), init, AbortSignal.timeout(SAVE_TIMEOUT_MS));
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok) throw this.#reported(failureOfStatus(response.status, answer));
    return readSavedWorksheet(answer);
  }

  /** Deletes a worksheet for good; one that is not there is deleted already. */
  async removeWorksheet(id: string): Promise<void> {
    const response = await this.#send(worksheetPath(id), { method: "DELETE" }, undefined);
    if (!response.ok && response.status !== 404)
      throw this.#reported(failureOfStatus(response.status, await response.json().catch(() => null)));
  }

  /** First statements for a new user, for the broker that this server was started with. */
  async quickStart(): Promise<string> {
    const response = await this.#send("quick-start", {}, undefined);
    if (!response.ok) throw this.#reported(failureOfStatus(response.status, null));
    return response.text();
  }

  /** The server's version, as it writes it. */
  async version(): Promise<unknown> {
    const response = await this.#send("version", {}, undefined);
    if (!response.ok) throw this.#reported(failureOfStatus(response.status, null));
    return response.json();
  }

  /** Optional parts of the console that the server has. */
  async console(): Promise<ConsoleParts> {
    const response = await this.#send("console", {}, undefined);
    if (!response.ok) throw this.#reported(failureOfStatus(response.status, null));
    return { graphiql: asObject(await response.json().catch(() => null))?.graphiql === true };
  }

  /** Runs an operation of GraphQL, whose answer may be data, errors or both. */
  async graphql(
    operation: GraphQLOperation,
    context: StatementContext,
    signal?: AbortSignal,
  ): Promise<unknown> {
    const init = {
      method: "POST",
      body: JSON.stringify(operation),
      headers: { "Content-Type": "application/json" },
    };
    const response = await this.#send(graphqlPath(context), init, signal);
    const answer: unknown = await response.json().catch(() => null);
    if (!response.ok && asObject(answer)?.errors === undefined)
      throw this.#reported(failureOfStatus(response.status, answer));
    return answer;
  }

  /** Reads data by an operation of the page. */
  async read<TResult, TVariables extends Readonly<Record<string, unknown>>>(
    document: TypedDocumentString<TResult, TVariables>,
    variables: TVariables,
    context: StatementContext,
    signal?: AbortSignal,
  ): Promise<TResult> {
    const operation = { query: document.toString(), variables, operationName: null };
    const { data, failure } = readData(await this.graphql(operation, context, signal));
    if (failure !== null) throw this.#reported(failure);
    return data as TResult;
  }

  /** The connection for subscriptions of a role; opened by the first of them. */
  push(context: StatementContext): Push {
    return openPush(this.#base, this.#token, context);
  }

  async #gather(first: StatementAnswer, signal: AbortSignal | undefined): Promise<ResultSet> {
    const rows = [...first.rows];
    let partition = 1;
    for (; partition < first.partitionCount && rows.length < RESULT_ROWS_MAX; partition++) {
      const next = await this.#ask(partitionPath(first.statementId, partition), {}, signal);
      rows.push(...next.rows);
    }
    return {
      kind: "result",
      columns: first.columns,
      rows: rows.slice(0, RESULT_ROWS_MAX),
      isTruncated: rows.length > RESULT_ROWS_MAX || partition < first.partitionCount,
      message: first.message,
      context: first.context,
    };
  }

  async #ask(path: string, init: RequestInit, signal: AbortSignal | undefined): Promise<StatementAnswer> {
    const response = await this.#send(path, init, signal);
    const body: unknown = await response.json().catch(() => null);
    if (!response.ok) throw this.#reported(failureOfStatus(response.status, body));
    try {
      return readAnswer(body);
    } catch (error) {
      if (error instanceof UnreadableAnswer) throw new RequestFailed(broken(error.message));
      throw error;
    }
  }

  async #send(path: string, init: RequestInit, signal: AbortSignal | undefined): Promise<Response> {
    const byCookie = this.#token === "";
    const headers = new Headers(init.headers);
    if (!byCookie) headers.set("Authorization", `Bearer ${this.#token}`);
    try {
      return await fetch(new URL(path, this.#base), {
        ...init,
        headers,
        credentials: byCookie ? "same-origin" : "omit",
        cache: "no-store",
        signal: signal ?? null,
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw this.#reported(away());
    }
  }

  #reported(failure: Failure): RequestFailed {
    for (const watcher of this.#watchers) watcher(failure);
    return new RequestFailed(failure);
  }
}

/** True if a server answers at all; needs no token. */
export async function isServerThere(base: URL = apiBase()): Promise<boolean> {
  try {
    const response = await fetch(new URL("version", base), { credentials: "omit", cache: "no-store" });
    return response.status < 500;
  } catch {
    return false;
  }
}

function worksheetPath(id: string): string {
  return `worksheets/${encodeURIComponent(id)}`;
}

function partitionPath(statementId: string, partition: number): string {
  return `statements/${encodeURIComponent(statementId)}?partitionID=${partition}&timezone=UTC`;
}

function offerOf(answer: StatementAnswer, request: DataplaneRequest): StreamOffer {
  if (request.requestType !== "streaming") {
    throw new RequestFailed(
      broken(`This page cannot read a data plane result of type "${request.requestType}".`),
    );
  }
  return { kind: "stream", request, message: answer.message, context: answer.context };
}

/** Failure of an unsuccessful HTTP answer. */
export function failureOfStatus(status: number, body: unknown): ConnectionFailure {
  const sent = asObject(body);
  const message = typeof sent?.message === "string" ? sent.message : "";
  if (status === 401 || status === 403) return denied(message);
  if (status === 502 || status === 503 || status === 504) return away();
  return broken(message || `The server answered with HTTP status ${status}.`);
}

function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("The statement was stopped.", "AbortError"));
    });
  });
}
