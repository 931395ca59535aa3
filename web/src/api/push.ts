/** Subscriptions of GraphQL: one websocket for all of them, which reconnects by itself. */

import { createClient } from "graphql-ws";
import { socketAddress } from "./dataplane";
import { graphqlPath } from "./graphql";
import type { TypedDocumentString } from "./operations";
import type { StatementContext } from "./wire";

const RETRY_FIRST_MS = 500;
const RETRY_LAST_MS = 30_000;
/** A server that is gone without a word, as behind a lost network, does not answer a ping. */
const PING_EVERY_MS = 20_000;
const PONG_WITHIN_MS = 10_000;

interface Subscriber<TResult> {
  readonly onEvent: (data: TResult) => void;
  /** Called when the connection is lost, or the server refuses the subscription; it is then tried again. */
  readonly onAway?: () => void;
}

export interface Push {
  /** Subscribes until the returned function is called, through every loss of the connection. */
  subscribe<TResult, TVariables extends Readonly<Record<string, unknown>>>(
    document: TypedDocumentString<TResult, TVariables>,
    variables: TVariables,
    subscriber: Subscriber<TResult>,
  ): () => void;
  close(): void;
}

/** Milliseconds before a further attempt: doubled each time up to a limit, and spread, so that many pages do not return at once. */
export function retryDelay(attempt: number, random: number): number {
  return Math.min(RETRY_FIRST_MS * 2 ** attempt, RETRY_LAST_MS) * (0.5 + random / 2);
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Opens the connection with the first subscription. An empty token: the cookie of the session authenticates it. */
export function openPush(base: URL, token: string, { role }: StatementContext): Push {
  const address = new URL(graphqlPath(role === undefined ? {} : { role }), base);
  const awaiting = new Set<() => void>();
  let pong: ReturnType<typeof setTimeout> | undefined;
  const client = createClient({
    url: socketAddress(address.href, base.protocol === "https:"),
    ...(token === "" ? {} : { connectionParams: { Authorization: `Bearer ${token}` } }),
    keepAlive: PING_EVERY_MS,
    retryAttempts: Number.POSITIVE_INFINITY,
    shouldRetry: () => true,
    retryWait: (attempt) => pause(retryDelay(attempt, Math.random())),
    on: {
      closed: () => {
        clearTimeout(pong);
        for (const report of awaiting) report();
      },
      ping: (received) => {
        if (!received) pong = setTimeout(() => client.terminate(), PONG_WITHIN_MS);
      },
      pong: (received) => {
        if (received) clearTimeout(pong);
      },
    },
  });
  return {
    subscribe: (document, variables, subscriber) => {
      const report = () => subscriber.onAway?.();
      awaiting.add(report);
      const stop = repeated(
        (end) =>
          client.subscribe<Parameters<typeof subscriber.onEvent>[0]>(
            { query: document.toString(), variables },
            {
              next: ({ data, errors }) => {
                if (errors === undefined && data !== null && data !== undefined) subscriber.onEvent(data);
                else end();
              },
              error: end,
              complete: end,
            },
          ),
        report,
      );
      return () => {
        awaiting.delete(report);
        stop();
      };
    },
    close: () => void client.dispose(),
  };
}

/**
 * Starts something again, after a pause, whenever it ends by itself. The library retries a lost connection; what the server ends, such as
 * for too many subscriptions or at its shutdown, is retried here. Returns how to stop that.
 */
export function repeated(start: (end: () => void) => () => void, onEnd: () => void): () => void {
  let attempt = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let stop = () => {};
  function run(): void {
    let isOver = false;
    const current = start(() => {
      if (isOver) return;
      isOver = true;
      onEnd();
      timer = setTimeout(run, retryDelay(++attempt, Math.random()));
    });
    stop = () => {
      isOver = true;
      current();
    };
  }
  run();
  return () => {
    clearTimeout(timer);
    stop();
  };
}
