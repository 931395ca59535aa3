/** Answers of statements, cached by TanStack Query: shared between components, kept while a page is left and opened again. */

import { type keepPreviousData, type UseQueryResult, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type Failure, failureOf } from "../api/failures";
import type { ResultSet } from "../api/statements";
import { useSession } from "../session-context";

/** First part of the keys of answers: what a refresh of the session asks for again. */
export const ANSWER = "answer";

/** Pages repeat one statement at this interval, while they are visible. */
export const REFRESH_EVERY_MS = 10_000;

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
  readonly refreshEveryMs?: number;
  readonly isEnabled?: boolean;
  /** The answer to show while that of another statement is on its way. */
  readonly placeholder?: typeof keepPreviousData;
}

/** The answer of a statement in the context of the session, renewed at each refresh of the session. */
export function useAnswer<T>(request: AnswerRequest<T>): Answer<T> {
  const { statement, read, refreshEveryMs, isEnabled, placeholder } = request;
  const { client, currentContext, context } = useSession();
  const { role, database, schema, store } = context;
  const query: UseQueryResult<ResultSet> = useQuery({
    queryKey: [ANSWER, statement, role, database, schema, store],
    queryFn: async ({ signal }) => {
      const outcome = await client.run({ statement, context: currentContext(), signal });
      if (outcome.kind === "stream") throw new Error("The answer of this statement does not end.");
      return outcome;
    },
    enabled: isEnabled ?? true,
    // TanStack Query stops at once while the document is hidden.
    refetchInterval: refreshEveryMs ?? false,
    ...(placeholder === undefined ? {} : { placeholderData: placeholder }),
  });
  const data = useMemo(() => (query.data === undefined ? null : read(query.data)), [query.data, read]);
  return {
    data,
    failure: query.error === null ? null : failureOf(query.error),
    isLoading: query.isPending && (isEnabled ?? true),
  };
}
