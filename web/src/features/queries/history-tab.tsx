import { useState } from "react";
import { momentOf, numberOf } from "../../data/select";
import { type QuerySubject, RollBackDialog } from "../../query-actions/dialogs";
import { ActionButton } from "../../ui/action-button";
import { DataTable } from "../../ui/data-table";
import { State } from "../../ui/state";
import { bytesText, compactText, timeText } from "../../ui/text";
import type { QueryFacts } from "./facts";

interface HistoryProps {
  readonly query: QuerySubject;
  readonly facts: QueryFacts;
  readonly refusal: string | null;
}

/** Events, versions and savepoints of a query, newest first. */
export function HistoryTab({ query, facts, refusal }: HistoryProps) {
  const [version, setVersion] = useState<number | null>(null);
  const [read, setRead] = useState<string | null>(null);
  const events = [...facts.events].sort((one, other) => (other.time ?? "").localeCompare(one.time ?? ""));
  const versions = [...facts.versions].sort((one, other) => Number(other.version) - Number(one.version));
  return (
    <>
      <h2>Versions</h2>
      <DataTable
        label="Versions"
        rows={versions}
        keyOf={(row) => row.version ?? ""}
        columns={[
          { id: "version", title: "Version", isNumber: true, cell: (row) => row.version },
          { id: "state", title: "State", cell: (row) => row.state },
          { id: "since", title: "Since", cell: (row) => timeText(momentOf(row.since)) },
          { id: "until", title: "Until", from: "medium", cell: (row) => timeText(momentOf(row.until)) },
          { id: "message", title: "Message", from: "wide", cell: (row) => row.message ?? "" },
          {
            id: "actions",
            title: "Actions",
            cell: (row) => (
              <div className="cell-actions">
                <button
                  type="button"
                  className="ghost"
                  aria-expanded={read === row.version}
                  onClick={() => setRead(read === row.version ? null : row.version)}
                >
                  {read === row.version ? "Hide SQL" : "Show SQL"}
                </button>
                {row.state === "current" || row.state === "on trial" ? null : (
                  <ActionButton refusal={refusal} onClick={() => setVersion(Number(row.version))}>
                    Return to it
                  </ActionButton>
                )}
              </div>
            ),
          },
        ]}
      />
      {read === null ? null : (
        <pre className="viewer-value">{versions.find((row) => row.version === read)?.sql}</pre>
      )}
      <h2>Savepoints</h2>
      {facts.savepoints.length === 0 ? (
        <p className="empty-text">
          None. A savepoint keeps the positions and the state of a moment, from which another query can
          continue.
        </p>
      ) : (
        <DataTable
          label="Savepoints"
          rows={facts.savepoints}
          keyOf={(row) => row.name ?? ""}
          columns={[
            { id: "name", title: "Name", cell: (row) => row.name },
            { id: "version", title: "Version", isNumber: true, cell: (row) => row.version },
            { id: "batch", title: "Batch", isNumber: true, cell: (row) => compactText(numberOf(row.batch)) },
            { id: "size", title: "Size", isNumber: true, cell: (row) => bytesText(numberOf(row.size)) },
            { id: "created", title: "Taken", from: "medium", cell: (row) => timeText(momentOf(row.created)) },
            {
              id: "expires",
              title: "Kept until",
              from: "medium",
              cell: (row) => timeText(momentOf(row.expires)),
            },
          ]}
        />
      )}
      <h2>Events</h2>
      <ol className="timeline">
        {events.map((event) => (
          <li key={`${event.time} ${event.state}`}>
            <time dateTime={event.time ?? ""}>{timeText(momentOf(event.time))}</time>
            <State state={event.state ?? ""} />
            {event.message === null ? null : <p className="note">{event.message}</p>}
          </li>
        ))}
      </ol>
      {version === null ? null : (
        <RollBackDialog query={query} version={version} onClose={() => setVersion(null)} />
      )}
    </>
  );
}
