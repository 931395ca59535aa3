import { useState } from "react";
import { failureOf } from "../../api/failures";
import type { StatementClient } from "../../api/statements";
import type { StatementContext } from "../../api/wire";
import { type PropertyItem, type QueryItem, readProperties } from "../../catalog/listing";
import { useListing } from "../../catalog/use-listing";
import { Dialog } from "../../ui/dialog";

interface TerminateDialogProps {
  readonly query: QueryItem;
  readonly client: StatementClient;
  readonly context: StatementContext;
  readonly terminate: () => Promise<void>;
  readonly onClose: () => void;
}

/** Confirmation of a query's end: shows the query, its sources and sinks, and the remaining objects. */
export function TerminateDialog({ query, client, context, terminate, onClose }: TerminateDialogProps) {
  const [isWorking, setWorking] = useState(false);
  const [problem, setProblem] = useState("");
  const facts = useListing<PropertyItem>({
    client,
    context,
    version: 0,
    statement: `DESCRIBE QUERY ${query.id};`,
    read: readProperties,
  });
  const fact = (name: string) => facts.items?.find((item) => item.name === name)?.value ?? "";

  async function confirm(): Promise<void> {
    setWorking(true);
    setProblem("");
    try {
      await terminate();
      onClose();
    } catch (error) {
      setProblem(failureOf(error).message);
      setWorking(false);
    }
  }

  return (
    <Dialog
      title={`Terminate the query ${query.name}?`}
      onClose={onClose}
      actions={
        <>
          <button type="button" className="secondary" onClick={onClose}>
            Keep it running
          </button>
          <button type="button" className="danger" onClick={confirm} disabled={isWorking}>
            {isWorking ? "Terminating…" : "Terminate"}
          </button>
        </>
      }
    >
      <dl className="facts">
        <dt>Reads</dt>
        <dd>{fact("sources") || "…"}</dd>
        <dt>Writes</dt>
        <dd>{fact("sink") || query.name}</dd>
        <dt>Query</dt>
        <dd>{query.id}</dd>
      </dl>
      <p>
        It stops reading and writing within seconds. Rows that it has written stay, and so does{" "}
        <strong>{fact("sink") || query.name}</strong> itself: it is only no longer kept up to date. How far
        the query has come is kept too: <code>RESTART QUERY {query.id};</code> goes on from there.
      </p>
      {query.sql === "" ? null : <pre className="viewer-value">{query.sql}</pre>}
      {problem === "" ? null : (
        <div className="failure compact" role="alert">
          <p className="failure-message">{problem}</p>
        </div>
      )}
    </Dialog>
  );
}
