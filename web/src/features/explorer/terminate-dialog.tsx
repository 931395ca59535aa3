import { useState } from "react";
import { failureOf } from "../../api/failures";
import { Dialog } from "../../ui/dialog";
import type { QueryItem } from "./listing";

interface TerminateDialogProps {
  readonly query: QueryItem;
  readonly terminate: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before a query is ended for good. */
export function TerminateDialog({ query, terminate, onClose }: TerminateDialogProps) {
  const [isWorking, setWorking] = useState(false);
  const [problem, setProblem] = useState("");

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
      title="Terminate this query?"
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
      <p>
        <strong>{query.name}</strong> stops for good and its state is removed. What it has written stays.
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
