import type { Failure } from "../../api/failures";

interface FailurePanelProps {
  readonly failure: Failure;
  readonly onShowPosition: (() => void) | null;
}

const TITLES = { denied: "Not signed in", away: "No connection", broken: "Unexpected answer" } as const;

/** Error, position and remedy. */
export function FailurePanel({ failure, onShowPosition }: FailurePanelProps) {
  const position = failure.kind === "sql" ? failure.position : null;
  return (
    <div className="failure" role="alert">
      <p className="failure-head">
        <span className="failure-code">
          {failure.kind === "sql" ? `SQLSTATE ${failure.sqlState}` : TITLES[failure.kind]}
        </span>
        {position === null ? null : onShowPosition === null ? (
          <span className="failure-place">
            line {position.line}, column {position.column}
          </span>
        ) : (
          <button type="button" className="link" onClick={onShowPosition}>
            line {position.line}, column {position.column} of the statement
          </button>
        )}
      </p>
      <p className="failure-message">{failure.message}</p>
      {failure.kind === "sql" && failure.details.length > 0 ? (
        <pre className="failure-details">{failure.details.join("\n")}</pre>
      ) : null}
      {failure.hint === "" ? null : (
        <p className="failure-hint">
          <strong>Hint</strong> {failure.hint}
        </p>
      )}
    </div>
  );
}
