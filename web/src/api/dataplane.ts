/** The data plane: one websocket for one streaming result. Closing it cancels the query. */

import { broken, type Failure, readSqlFailure } from "./failures";
import { asObject, type Column, type DataplaneRequest, type Row, readColumns, readRow } from "./wire";

const NORMAL_CLOSURE = 1000;

export interface StreamListener {
  onColumns(columns: readonly Column[]): void;
  onRow(row: Row): void;
  /** Called once at most, and only when the stream was not closed from this side. */
  onFailure(failure: Failure): void;
  /** The server closed the stream in good order. */
  onEnd(): void;
}

export interface Stream {
  close(): void;
}

type Phase = "connecting" | "authenticating" | "flowing" | "closed";

export type Frame =
  | { readonly kind: "columns"; readonly columns: readonly Column[] }
  | { readonly kind: "row"; readonly row: Row }
  | { readonly kind: "failure"; readonly failure: Failure }
  | { readonly kind: "unknown" };

/** http becomes ws; a page loaded over TLS never opens an unprotected socket, which a browser would refuse. */
export function socketAddress(uri: string, isPageSecure: boolean): string {
  const address = new URL(uri, document.baseURI);
  const isSecure = isPageSecure || address.protocol === "https:" || address.protocol === "wss:";
  return address.href.replace(/^[a-z]+:/i, isSecure ? "wss:" : "ws:");
}

/** Operations of a changelog's rows, by the texts of the protocol. */
const OPS = { "+I": "insert", "+U": "update", "-D": "delete" } as const;
const OP_COLUMN: Column = { name: "op", type: "", nullable: false, isOp: true };

/** Rows of a changelog get an additional first cell: the kind of change. */
function readLiveColumns(frame: Readonly<Record<string, unknown>>): readonly Column[] {
  const columns = readColumns(frame.columns);
  const headers = asObject(frame.headers);
  if (headers?.relationType !== "CHANGELOG") return columns;
  const key = parse(headers.primaryKey);
  const names = new Set(Array.isArray(key) ? key : []);
  return [
    OP_COLUMN,
    ...columns.map((column) => (names.has(column.name) ? { ...column, isKey: true as const } : column)),
  ];
}

function readLiveRow(frame: Readonly<Record<string, unknown>>): Row {
  const row = readRow(frame.data);
  const op = asObject(frame.headers)?.op;
  return typeof op === "string" ? [OPS[op as keyof typeof OPS] ?? op, ...row] : row;
}

/** A message has one frame, or those of several rows, one in each line: a browser spends more on a message than on a row. */
export function readFrames(data: unknown): readonly Frame[] {
  return typeof data === "string" ? data.split("\n").map(readFrame) : [{ kind: "unknown" }];
}

function readFrame(data: string): Frame {
  const frame = asObject(parse(data));
  switch (frame?.type) {
    case "metadata":
      return { kind: "columns", columns: readLiveColumns(frame) };
    case "data":
      return { kind: "row", row: readLiveRow(frame) };
    case "error": {
      const nested = asObject(frame.error);
      const message = frame.message ?? nested?.message;
      const sqlState = frame.sqlCode ?? frame.sql_code ?? nested?.sqlCode;
      return {
        kind: "failure",
        failure: readSqlFailure(
          typeof sqlState === "string" ? sqlState : "XX000",
          typeof message === "string" ? message : "",
        ),
      };
    }
    default:
      return { kind: "unknown" };
  }
}

function parse(data: unknown): unknown {
  if (typeof data !== "string") return null;
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}

export function openStream(request: DataplaneRequest, listener: StreamListener): Stream {
  const socket = new WebSocket(socketAddress(request.uri, location.protocol === "https:"));
  let phase: Phase = "connecting";

  function close(): void {
    phase = "closed";
    socket.close(NORMAL_CLOSURE);
  }

  function fail(failure: Failure): void {
    close();
    listener.onFailure(failure);
  }

  function receive(frame: Frame): void {
    switch (frame.kind) {
      case "columns":
        phase = "flowing";
        listener.onColumns(frame.columns);
        break;
      case "row":
        if (phase === "flowing") listener.onRow(frame.row);
        else fail(broken("The stream sent a row before its columns."));
        break;
      case "failure":
        fail(frame.failure);
        break;
      case "unknown":
        // Frames of later protocol versions are passed over.
        break;
    }
  }

  socket.onopen = () => {
    if (phase !== "connecting") return;
    phase = "authenticating";
    socket.send(JSON.stringify({ type: "auth", accessToken: request.token, sessionId: "", rows: "lines" }));
  };
  socket.onmessage = (event: MessageEvent<unknown>) => {
    for (const frame of readFrames(event.data)) {
      if (phase !== "closed") receive(frame);
    }
  };
  socket.onclose = (event) => {
    if (phase === "closed") return;
    const hadRows = phase === "flowing";
    phase = "closed";
    if (event.code === NORMAL_CLOSURE) return listener.onEnd();
    listener.onFailure(
      hadRows
        ? { ...broken("The connection to the stream was lost."), hint: "Run the statement again." }
        : { ...broken("The stream could not be opened."), hint: "Check that the data plane can be reached." },
    );
  };
  return { close };
}
