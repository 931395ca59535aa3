/** Answers of statements, cached by TanStack Query: shared between components, kept while a page is left and opened again. */

import {
  type keepPreviousData,
  type QueryClient,
  type UseQueryResult,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, useRef } from "react";
import { type Failure, failureOf } from "../api/failures";
import type { ResultSet } from "../api/statements";
import { useSession } from "../session-context";
import { ANSWER, POLL_EVERY_MS, useFeed, useProgress } from "./feed";

/** Least time between two readings of what the progress of queries renews. */
const RENEWED_EVERY_MS = 5000;

export interface Answer<T> {
  /** The last answer; null before the first one. */
  readonly data: T | null;
  readonly failure: Failure | null;
  readonly isLoading: boolean;
}

export interface AnswerRequest<T> {
  readonly statement: string;
  /** The same function at each render, so that rows are read once. */
  readonly read: (result: ResultSet) => T;
  /** The system relations that it reads: their changes renew it. Without any, a refresh of the session does. */
  readonly relations?: readonly string[];
  /** The progress of these queries, or of all (null), renews it too. */
  readonly progress?: { readonly ids: readonly string[] | null; readonly everyMs?: number };
  /** Interval of repetitions, whatever is pushed. */
  readonly repeatEveryMs?: number;
  readonly isEnabled?: boolean;
  /** The answer to show while that of another statement is on its way. */
  readonly placeholder?: typeof keepPreviousData;
}

/** The answer of a statement in the context of the session, renewed at each refresh of the session. */
export function useAnswer<T>(request: AnswerRequest<T>): Answer<T> {
  const { statement, read, relations, progress, repeatEveryMs, isEnabled, placeholder } = request;
  const { client, currentContext, context } = useSession();
  const { isLive } = useFeed();
  const answers = useQueryClient();
  const { role, database, schema, store } = context;
  const key = JSON.stringify([ANSWER, statement, role, database, schema, store]);
  const isPushed = relations !== undefined || progress !== undefined;
  const query: UseQueryResult<ResultSet> = useQuery({
    queryKey: JSON.parse(key) as readonly unknown[],
    queryFn: async ({ signal }) => {
      const outcome = await client.run({ statement, context: currentContext(), signal });
      if (outcome.kind === "stream") throw new Error("The answer of this statement does not end.");
      return outcome;
    },
    enabled: isEnabled ?? true,
    meta: { relations: relations ?? [] },
    // TanStack Query stops at once while the document is hidden.
    refetchInterval: repeatEveryMs ?? (isPushed && !isLive ? POLL_EVERY_MS : false),
    ...(placeholder === undefined ? {} : { placeholderData: placeholder }),
  });
  const renew = useRenewal(answers, key, progress?.everyMs ?? RENEWED_EVERY_MS);
  useProgress(progress?.ids ?? null, renew, progress !== undefined && (isEnabled ?? true));
  const data = useMemo(() => (query.data === undefined ? null : read(query.data)), [query.data, read]);
  return {
    data,
    failure: query.error === null ? null : failureOf(query.error),
    isLoading: query.isPending && (isEnabled ?? true),
  };
}

/** A function that renews an answer when its last reading is old enough, however often it is called. */
function useRenewal(answers: QueryClient, key: string, everyMs: number): () => void {
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null);
  const stop = useCallback(() => {
    if (timer.current !== null) clearTimeout(timer.current);
    timer.current = null;
  }, []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a timer is of one answer.
  useEffect(() => stop, [stop, key]);
  return useCallback(() => {
    if (timer.current !== null) return;
    const queryKey = JSON.parse(key) as readonly unknown[];
    const age = Date.now() - (answers.getQueryState(queryKey)?.dataUpdatedAt ?? 0);
    timer.current = setTimeout(
      () => {
        timer.current = null;
        void answers.invalidateQueries({ queryKey, exact: true });
      },
      Math.max(0, everyMs - age),
    );
  }, [answers, key, everyMs]);
}
