/** Dialogs of what can be done to a query. Each says what will happen before it runs its statement. */

import { useMemo, useState } from "react";
import { literal, selectFrom } from "../data/select";
import { StatementDialog } from "../data/statement-dialog";
import { useAnswer } from "../data/use-answer";
import {
  pauseStatement,
  restartStatement,
  rollBackStatement,
  savepointStatement,
  terminateStatement,
} from "./statements";

export interface QuerySubject {
  readonly id: string;
  readonly name: string;
  readonly state: string;
  /** The relations that it writes, by their full names. */
  readonly sink: string;
}

interface DialogProps {
  readonly query: QuerySubject;
  readonly onClose: () => void;
}

export function TerminateDialog({ query, onClose }: DialogProps) {
  const [savepoint, setSavepoint] = useState("");
  return (
    <StatementDialog
      title={`Terminate the query ${query.name}?`}
      statement={terminateStatement(query.id, savepoint)}
      confirm="Terminate"
      cancel="Keep it running"
      isDangerous
      onClose={onClose}
    >
      <Facts query={query} />
      <p>
        It stops reading and writing within seconds. Rows that it has written stay, and so does{" "}
        <strong>{query.sink}</strong> itself: it is only no longer kept up to date. How far the query has come
        is kept too: a restart goes on from there.
      </p>
      <label className="field">
        Take a savepoint first (optional)
        <input
          value={savepoint}
          onChange={(event) => setSavepoint(event.target.value)}
          placeholder="name of the savepoint"
        />
      </label>
    </StatementDialog>
  );
}

export function RestartDialog({ query, onClose }: DialogProps) {
  const isRunning = query.state === "running" || query.state === "starting" || query.state === "restarting";
  return (
    <StatementDialog
      title={`Restart the query ${query.name}?`}
      statement={restartStatement(query.id)}
      confirm="Restart"
      onClose={onClose}
    >
      <Facts query={query} />
      <p>
        {isRunning ? "The query stops after its batch and starts again" : "The query starts again"} from its
        last checkpoint: with the positions and the state that it had. A sink with exactly_once gets no row
        twice; one with at_least_once may get the rows of the last batch again.
      </p>
    </StatementDialog>
  );
}

/** Stops the query until it is resumed, or resumes it. `isPaused` is true if it was stopped with its relation. */
export function PauseDialog({ query, isPaused, onClose }: DialogProps & { readonly isPaused: boolean }) {
  return (
    <StatementDialog
      title={isPaused ? `Resume the query ${query.name}?` : `Pause the query ${query.name}?`}
      statement={pauseStatement(query.sink, isPaused)}
      confirm={isPaused ? "Resume" : "Pause"}
      onClose={onClose}
    >
      <Facts query={query} />
      <p>
        {isPaused
          ? "It continues from its last checkpoint, and reads what came meanwhile."
          : "It stops until it is resumed, and keeps its positions and its state. All queries that write the relation are paused; one of an application pauses the whole application."}
      </p>
    </StatementDialog>
  );
}

export function SavepointDialog({ query, onClose }: DialogProps) {
  const [name, setName] = useState("");
  const [days, setDays] = useState("");
  return (
    <StatementDialog
      title={`Take a savepoint of ${query.name}`}
      statement={savepointStatement(query.id, name, days)}
      confirm="Take the savepoint"
      onClose={onClose}
    >
      <p>
        Copies the positions and the state as they are after the current batch. The query runs on. Another
        query can continue from the savepoint, with <code>resume.from.savepoint</code>.
      </p>
      <label className="field">
        Name
        <input value={name} onChange={(event) => setName(event.target.value)} placeholder="before_change" />
      </label>
      <label className="field">
        Days to keep it (empty: until it is dropped)
        <input value={days} inputMode="numeric" onChange={(event) => setDays(event.target.value)} />
      </label>
    </StatementDialog>
  );
}

export function RollBackDialog({ query, onClose, version }: DialogProps & { readonly version: number }) {
  return (
    <StatementDialog
      title={`Return ${query.name} to version ${version}?`}
      statement={rollBackStatement(query.id, version)}
      confirm={`Return to version ${version}`}
      onClose={onClose}
    >
      <p>
        The query continues with the statement of version {version}, as a new version, with its positions and
        its state. Rows that were written before stay as they are. If the new version fails before a batch
        with rows ends, the present version takes its place again.
      </p>
    </StatementDialog>
  );
}

/** Sources and sinks of the query. */
function Facts({ query }: { readonly query: QuerySubject }) {
  const sources = useMemo(
    () => selectFrom("lineage", ["source"], `WHERE target_kind = 'query' AND target = ${literal(query.id)}`),
    [query.id],
  );
  const { data } = useAnswer(sources);
  return (
    <dl className="facts">
      <dt>Reads</dt>
      <dd>{data === null ? "…" : data.map((row) => row.source).join(", ") || "–"}</dd>
      <dt>Writes</dt>
      <dd>{query.sink}</dd>
      <dt>Query</dt>
      <dd>{query.id}</dd>
    </dl>
  );
}
