import { type ReactNode, useId } from "react";

interface ActionButtonProps {
  readonly children: ReactNode;
  /** Reason why the action is not possible now; null if it is. */
  readonly refusal: string | null;
  readonly isDangerous?: boolean;
  readonly onClick: () => void;
}

/** A button that stays reachable while it is disabled, so that its reason can be read. */
export function ActionButton({ children, refusal, isDangerous, onClick }: ActionButtonProps) {
  const reasonId = useId();
  return (
    <>
      <button
        type="button"
        className={isDangerous === true ? "secondary stop" : "secondary"}
        aria-disabled={refusal === null ? undefined : "true"}
        aria-describedby={refusal === null ? undefined : reasonId}
        title={refusal ?? undefined}
        onClick={refusal === null ? onClick : undefined}
      >
        {children}
      </button>
      {refusal === null ? null : (
        <span id={reasonId} className="hidden">
          {refusal}
        </span>
      )}
    </>
  );
}
