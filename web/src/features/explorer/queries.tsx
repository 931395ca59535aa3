import { useState } from "react";
import { terminateStatement } from "../../sql/identifiers";
import { Icon } from "../../ui/icons";
import type { ExplorerProps } from "./explorer";
import { isEnded, type QueryItem, readQueries } from "./listing";
import { Items, Section } from "./section";
import { TerminateDialog } from "./terminate-dialog";
import { useListing } from "./use-listing";

const REFRESH_EVERY_MS = 5000;

export function Queries({ client, context, version, onInsert, onRefresh }: ExplorerProps) {
  const [asked, setAsked] = useState<QueryItem | null>(null);
  const listing = useListing<QueryItem>({
    client,
    context,
    version,
    statement: "LIST QUERIES;",
    read: readQueries,
    refreshEveryMs: REFRESH_EVERY_MS,
  });
  const running = listing.items?.filter((query) => !isEnded(query)).length ?? null;
  return (
    <Section title="Queries" count={running}>
      <Items
        listing={listing}
        empty={
          <>
            Nothing runs. <code>CREATE STREAM … AS SELECT</code> starts a query that keeps running.
          </>
        }
        keyOf={(query) => query.id}
        render={(query) => (
          <div className={isEnded(query) ? "query ended" : "query"}>
            <button
              type="button"
              className="item leaf"
              title={query.message || query.sql || query.id}
              onClick={() => onInsert(`DESCRIBE QUERY ${query.id};`)}
            >
              <span className={`dot query-${query.state}`} aria-hidden="true" />
              <span className="item-name">{query.name}</span>
              <span className="item-state">{stateText(query)}</span>
            </button>
            {query.state === "errored" && query.message !== "" ? (
              <p className="query-message">{query.message}</p>
            ) : null}
            {isEnded(query) ? null : (
              <button
                type="button"
                className="ghost item-action"
                aria-label={`Terminate query ${query.name}`}
                title="Terminate"
                onClick={() => setAsked(query)}
              >
                <Icon name="stop" />
              </button>
            )}
          </div>
        )}
      />
      {asked === null ? null : (
        <TerminateDialog
          query={asked}
          terminate={async () => {
            await client.run({ statement: terminateStatement(asked.id), context });
            onRefresh();
          }}
          onClose={() => setAsked(null)}
        />
      )}
    </Section>
  );
}

function stateText(query: QueryItem): string {
  const isChanging = query.intendedState !== "" && query.intendedState !== query.state;
  const isExpected = query.state === "errored" || !isChanging;
  return (isExpected ? query.state : `${query.state} → ${query.intendedState}`).replaceAll("_", " ");
}
