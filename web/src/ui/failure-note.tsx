import type { Failure } from "../api/failures";

/** A failure of a request of the page, in its place. The banner speaks of a server that is away. */
export function FailureNote({ failure }: { readonly failure: Failure | null }) {
  if (failure === null || failure.kind === "away") return null;
  return (
    <div className="failure compact" role="alert">
      <p className="failure-message">{failure.message}</p>
      {failure.hint === "" ? null : <p className="failure-hint">{failure.hint}</p>}
    </div>
  );
}
