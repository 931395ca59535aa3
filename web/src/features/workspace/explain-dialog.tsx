import { useState } from "react";
import { Dialog } from "../../ui/dialog";
import { skipExplanations } from "./explain";

interface ExplainDialogProps {
  readonly plan: readonly string[];
  readonly onCreate: () => void;
  readonly onClose: () => void;
}

/** Plan of a CREATE … AS, and the button that does it. */
export function ExplainDialog({ plan, onCreate, onClose }: ExplainDialogProps) {
  const [isLast, setLast] = useState(false);
  return (
    <Dialog
      title="Before it is created"
      onClose={onClose}
      actions={
        <>
          <button type="button" className="secondary" onClick={onClose}>
            Cancel
          </button>
          <button
            type="button"
            className="primary"
            onClick={() => {
              if (isLast) skipExplanations();
              onClose();
              onCreate();
            }}
          >
            Create
          </button>
        </>
      }
    >
      <p>
        The plan of the query: what it writes, with which delivery, how long it waits for late rows, and which
        steps keep state.
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard must be able to scroll a long plan. */}
      <pre className="viewer-value plan-text" tabIndex={0}>
        {plan.join("\n")}
      </pre>
      <label className="check">
        <input type="checkbox" checked={isLast} onChange={(event) => setLast(event.target.checked)} /> Create
        without this step from now on, in this browser
      </label>
    </Dialog>
  );
}
