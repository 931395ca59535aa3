import { type ReactNode, useEffect, useRef, useState } from "react";
import { type Failure, failureOf } from "../api/failures";
import { useSession } from "../session-context";
import { Dialog } from "../ui/dialog";
import { FailureNote } from "../ui/failure-note";

interface StatementDialogProps {
  readonly title: string;
  /** The statement that the button runs; null while its fields are incomplete. */
  readonly statement: string | null;
  readonly confirm: string;
  readonly cancel?: string;
  readonly isDangerous?: boolean;
  /** False if the statement contains a secret, which is not shown. */
  readonly showsStatement?: boolean;
  readonly onClose: () => void;
  readonly onDone?: () => void;
  /** Called with the failure, and with null before the next run. Returns true if it is shown at a field. */
  readonly onFailure?: (failure: Failure | null) => boolean;
  /** Explanation of the statement, and the fields that it is made of. */
  readonly children: ReactNode;
}

/** Explains a statement, runs it when it is confirmed, and stays open with the error when it fails. */
export function StatementDialog(props: StatementDialogProps) {
  const { title, statement, confirm, cancel, isDangerous, showsStatement, children } = props;
  const { onClose, onDone, onFailure } = props;
  const { client, currentContext, refresh } = useSession();
  const [isWorking, setWorking] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  const note = useRef<HTMLDivElement>(null);

  // A long form would hide it below its fields.
  useEffect(() => {
    if (failure !== null) note.current?.scrollIntoView({ block: "nearest" });
  }, [failure]);

  async function run(): Promise<void> {
    if (statement === null) return;
    setWorking(true);
    setFailure(null);
    onFailure?.(null);
    try {
      await client.run({ statement, context: currentContext() });
      refresh();
      onDone?.();
      onClose();
    } catch (error) {
      const problem = failureOf(error);
      if (onFailure?.(problem) !== true) setFailure(problem);
      setWorking(false);
    }
  }

  return (
    <Dialog
      title={title}
      onClose={onClose}
      actions={
        <>
          <button type="button" className="secondary" onClick={onClose}>
            {cancel ?? "Cancel"}
          </button>
          <button
            type="button"
            className={isDangerous === true ? "danger" : "primary"}
            onClick={run}
            disabled={isWorking || statement === null}
          >
            {isWorking ? "Working…" : confirm}
          </button>
        </>
      }
    >
      {children}
      {showsStatement === false || statement === null ? null : (
        <pre className="viewer-value">{statement}</pre>
      )}
      <div ref={note}>
        <FailureNote failure={failure} />
      </div>
    </Dialog>
  );
}
