import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useSession } from "../../session-context";
import { Icon } from "../../ui/icons";
import { markTourSeen, STEPS } from "./steps";

/** Card with one step at a time, beside the page: what it is about, the statement, and the button that runs it. */
export function Tour({ onClose }: { readonly onClose: () => void }) {
  const { runStatement } = useSession();
  const [place, setPlace] = useState(0);
  const step = STEPS[place];
  if (step === undefined) return null;
  const isLast = place === STEPS.length - 1;
  const close = () => {
    markTourSeen();
    onClose();
  };
  return (
    <section className="tour" aria-label="Tour">
      <header className="tour-head">
        <h2>
          <span className="faint">
            {place + 1} of {STEPS.length}
          </span>{" "}
          {step.title}
        </h2>
        <button type="button" className="ghost" aria-label="Close the tour" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <p>{step.text}</p>
      {step.statement === null ? null : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard must be able to scroll a long statement.
        <pre className="viewer-value" tabIndex={0}>
          {step.statement}
        </pre>
      )}
      <div className="tour-actions">
        {step.statement === null ? null : (
          <button type="button" className="primary" onClick={() => runStatement(step.statement ?? "")}>
            <Icon name="play" /> Run it
          </button>
        )}
        {step.page === null ? null : (
          <Link className="button secondary" to={step.page.to}>
            Open {step.page.name}
          </Link>
        )}
        <span className="tour-steps">
          <button
            type="button"
            className="secondary"
            disabled={place === 0}
            onClick={() => setPlace(place - 1)}
          >
            Back
          </button>
          <button type="button" className="secondary" onClick={isLast ? close : () => setPlace(place + 1)}>
            {isLast ? "Finish" : "Next"}
          </button>
        </span>
      </div>
    </section>
  );
}
