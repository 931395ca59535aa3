import { useEffect, useState } from "react";
import { type Failure, failureOf } from "../api/failures";
import type { ResultSet, StatementClient } from "../api/statements";
import type { StatementContext } from "../api/wire";

export interface Listing<TItem> {
  /** The last list that was read, also while the next one is on its way. */
  readonly items: readonly TItem[] | null;
  readonly failure: Failure | null;
}

export interface ListingRequest<TItem> {
  readonly client: StatementClient;
  readonly statement: string;
  readonly context: StatementContext;
  readonly read: (result: ResultSet) => readonly TItem[];
  /** A new number reads the list anew. */
  readonly version: number;
}

/** Runs a LIST statement now and at each change of the version. */
export function useListing<TItem>(request: ListingRequest<TItem>): Listing<TItem> {
  const { client, statement, read, version } = request;
  const [listing, setListing] = useState<Listing<TItem>>({ items: null, failure: null });
  // By value: a context with the same names is the same context.
  const contextKey = JSON.stringify(request.context);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new version is the reason to read anew.
  useEffect(() => {
    const controller = new AbortController();
    const context = JSON.parse(contextKey) as StatementContext;
    async function load(): Promise<void> {
      try {
        const outcome = await client.run({ statement, context, signal: controller.signal });
        if (outcome.kind === "result") setListing({ items: read(outcome), failure: null });
      } catch (error) {
        if (!controller.signal.aborted) setListing(({ items }) => ({ items, failure: failureOf(error) }));
      }
    }
    void load();
    return () => controller.abort();
  }, [client, statement, contextKey, read, version]);

  return listing;
}
