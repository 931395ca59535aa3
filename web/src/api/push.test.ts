import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { TypedDocumentString } from "./operations";
import { openPush, repeated, retryDelay } from "./push";

const DOCUMENT = new TypedDocumentString<{ readonly n: number }, Record<string, never>>("subscription { n }");

type Message = {
  readonly type: string;
  readonly id?: string;
  readonly payload?: Readonly<Record<string, unknown>>;
};

/** The page's end of a websocket whose server is the test. */
class Socket {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSING = 2;
  static readonly CLOSED = 3;
  static all: Socket[] = [];
  readyState = Socket.CONNECTING;
  readonly sent: Message[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;
  onerror: (() => void) | null = null;

  constructor(readonly url: string) {
    Socket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Message);
  }

  close(code = 1000): void {
    this.lose(code);
  }

  accept(): void {
    this.readyState = Socket.OPEN;
    this.onopen?.();
    this.receive({ type: "connection_ack" });
  }

  receive(message: Message): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  lose(code = 1006): void {
    if (this.readyState === Socket.CLOSED) return;
    this.readyState = Socket.CLOSED;
    this.onclose?.({ code, reason: "" });
  }

  get subscribed(): Message | undefined {
    return this.sent.findLast(({ type }) => type === "subscribe");
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", Socket);
  vi.stubGlobal("document", { baseURI: "http://host/" });
  Socket.all = [];
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function socket(count: number): Promise<Socket> {
  while (Socket.all.length < count) await vi.advanceTimersByTimeAsync(1000);
  return Socket.all[count - 1] as Socket;
}

function opened(token = "t") {
  const push = openPush(new URL("http://host/v2/"), token, { role: "a b" });
  const seen: (number | "away")[] = [];
  const stop = push.subscribe(
    DOCUMENT,
    {},
    { onEvent: ({ n }) => seen.push(n), onAway: () => seen.push("away") },
  );
  return { push, seen, stop };
}

async function accepted(count: number): Promise<{ readonly at: Socket; readonly id: string }> {
  const at = await socket(count);
  at.accept();
  await vi.advanceTimersByTimeAsync(0);
  const id = at.subscribed?.id;
  if (id === undefined) throw new Error("expected a subscription");
  return { at, id };
}

describe("a subscription", () => {
  it("runs in the role of the session, by its token or its cookie", async () => {
    opened();
    const { at } = await accepted(1);
    expect(at.url).toBe("ws://host/v2/graphql?role=a+b");
    expect(at.sent[0]).toEqual({ type: "connection_init", payload: { Authorization: "Bearer t" } });
    expect(at.subscribed?.payload).toMatchObject({ query: "subscription { n }", variables: {} });
    opened("");
    const cookie = await accepted(2);
    expect(cookie.at.sent[0]).toEqual({ type: "connection_init" });
  });

  it("continues on another connection after the first was lost, and reports the loss", async () => {
    const { seen } = opened();
    const first = await accepted(1);
    first.at.receive({ type: "next", id: first.id, payload: { data: { n: 1 } } });
    first.at.lose();
    const second = await accepted(2);
    second.at.receive({ type: "next", id: second.id, payload: { data: { n: 2 } } });
    await vi.advanceTimersByTimeAsync(0);
    expect(seen).toEqual([1, "away", 2]);
  });

  it("is tried again after a refusal, and after the server has ended it", async () => {
    const { seen } = opened();
    const first = await accepted(1);
    const error = { message: "too many", locations: [] };
    first.at.receive({ type: "error", id: first.id, payload: [error] as unknown as Record<string, unknown> });
    await vi.advanceTimersByTimeAsync(10_000);
    // The refused subscription was the only one, so its connection was closed.
    const second = await accepted(2);
    second.at.receive({ type: "next", id: second.id, payload: { data: { n: 2 } } });
    second.at.receive({ type: "complete", id: second.id });
    const third = await accepted(3);
    third.at.receive({ type: "next", id: third.id, payload: { data: { n: 3 } } });
    await vi.advanceTimersByTimeAsync(0);
    expect(seen.filter((each) => each !== "away")).toEqual([2, 3]);
    expect(seen).toContain("away");
  });

  it("ends when the page no longer wants it", async () => {
    const { seen, stop, push } = opened();
    const { at, id } = await accepted(1);
    stop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(at.sent.at(-1)).toEqual({ type: "complete", id });
    push.close();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(Socket.all).toHaveLength(1);
    expect(seen.filter((each) => each !== "away")).toEqual([]);
  });

  it("leaves a connection that does not answer a ping", async () => {
    const { seen } = opened();
    const { at } = await accepted(1);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(at.sent.at(-1)).toEqual({ type: "ping" });
    at.receive({ type: "pong" });
    await vi.advanceTimersByTimeAsync(15_000);
    expect(Socket.all).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(15_000);
    await socket(2);
    expect(seen).toContain("away");
  });
});

describe("retries", () => {
  it("wait longer each time, at most half a minute", () => {
    expect([0, 1, 2, 20].map((attempt) => retryDelay(attempt, 1))).toEqual([500, 1000, 2000, 30_000]);
    expect(retryDelay(20, 0)).toBe(15_000);
  });

  it("stop when nothing is wanted any more, also during a pause", async () => {
    let starts = 0;
    const stop = repeated(
      (end) => {
        starts++;
        setTimeout(end, 10);
        return () => {};
      },
      () => {},
    );
    await vi.advanceTimersByTimeAsync(11);
    stop();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(starts).toBe(1);
  });
});
