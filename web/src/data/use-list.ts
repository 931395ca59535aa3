/** Lists of objects, read by GraphQL page by page, shared between components, and renewed by what the server pushes. */

import { type UseQueryResult, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { failureOf } from "../api/failures";
import type { TypedDocumentString } from "../api/operations";
import { useSession } from "../session-context";
import { ANSWER, POLL_EVERY_MS, useFeed } from "./feed";
import { updated } from "./renewal";
import type { Answer } from "./use-answer";

/** Rows of one request; below the server's limits for a document. */
const PAGE_ROWS = 250;

interface Connection<Row> {
  readonly nodes: readonly Row[];
  readonly pageInfo: { readonly hasNextPage: boolean; readonly endCursor: string | null };
}

type Paged = Readonly<Record<string, unknown>> & {
  readonly first: number;
  readonly after?: string | null | undefined;
};
type Own<TVariables> = Omit<TVariables, "first" | "after">;

interface Update<Row> {
  readonly nodes: readonly Row[];
  readonly removed: readonly (readonly (string | null)[])[];
}

/** All rows of a system relation. */
export interface List<Row, TResult, TVariables extends Paged, TUpdate> {
  /** System relation whose changes renew the list. */
  readonly relation: string;
  readonly document: TypedDocumentString<TResult, TVariables>;
  readonly connection: (result: TResult) => Connection<Row>;
  /** A subscription whose events are the rows that changed. */
  readonly pushed?: {
    readonly document: TypedDocumentString<TUpdate, Readonly<Record<string, never>>>;
    readonly update: (event: TUpdate) => Update<Row>;
    readonly keyOf: (row: Row) => readonly (string | null)[];
  };
}

export function listOf<Row, TResult, TVariables extends Paged, TUpdate = never>(
  list: List<Row, TResult, TVariables, TUpdate>,
): List<Row, TResult, TVariables, TUpdate> {
  return list;
}

/** Reads page after page. Exported for its test. */
export async function allRows<Row>(
  page: (after: string | null) => Promise<Connection<Row>>,
): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (let after: string | null = null; ; ) {
    const { nodes, pageInfo } = await page(after);
    rows.push(...nodes);
    if (!pageInfo.hasNextPage) return rows;
    after = pageInfo.endCursor;
  }
}

export interface ListOptions {
  /** False: nothing is read or renewed, as while another page is shown. */
  readonly isEnabled?: boolean;
}

/** The rows of a list for the role of the session. */
export function useList<Row, TResult, TVariables extends Paged, TUpdate>(
  list: List<Row, TResult, TVariables, TUpdate>,
  variables: Own<TVariables>,
  { isEnabled = true }: ListOptions = {},
): Answer<readonly Row[]> {
  const { client, context } = useSession();
  const { role } = context;
  const { push, isLive } = useFeed();
  const answers = useQueryClient();
  const { document, connection, relation, pushed } = list;
  const key = JSON.stringify([ANSWER, document.toString(), variables, role]);
  const query: UseQueryResult<readonly Row[]> = useQuery({
    queryKey: JSON.parse(key) as readonly unknown[],
    queryFn: ({ signal }) =>
      allRows(async (after) => {
        const all = { ...variables, first: PAGE_ROWS, after } as unknown as TVariables;
        return connection(await client.read(document, all, role === undefined ? {} : { role }, signal));
      }),
    enabled: isEnabled,
    meta: { relations: [relation] },
    refetchInterval: isLive ? false : POLL_EVERY_MS,
  });
  useEffect(() => {
    if (push === null || pushed === undefined || !isEnabled) return;
    const queryKey = JSON.parse(key) as readonly unknown[];
    return push.subscribe(
      pushed.document,
      {},
      {
        onEvent: (event) =>
          answers.setQueryData<readonly Row[]>(queryKey, (rows) =>
            updated(rows ?? [], pushed.update(event), pushed.keyOf),
          ),
      },
    );
  }, [push, pushed, key, answers, isEnabled]);
  return {
    data: query.data ?? null,
    failure: query.error === null ? null : failureOf(query.error),
    isLoading: query.isPending && isEnabled,
  };
}
