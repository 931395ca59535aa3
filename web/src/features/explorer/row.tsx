import type { ReactNode } from "react";
import { Icon } from "../../ui/icons";

interface RowAction {
  readonly icon: "play" | "write" | "stop";
  /** Action and object in words. */
  readonly label: string;
  readonly onClick: () => void;
}

interface RowProps {
  readonly children: ReactNode;
  readonly actions: readonly RowAction[];
}

/** An item with its actions beside it, in a separate column that covers nothing. */
export function Row({ children, actions }: RowProps) {
  return (
    <div className="row">
      {children}
      {actions.map(({ icon, label, onClick }) => (
        <button
          key={label}
          type="button"
          className="ghost row-action"
          aria-label={label}
          title={label}
          onClick={onClick}
        >
          <Icon name={icon} />
        </button>
      ))}
    </div>
  );
}
