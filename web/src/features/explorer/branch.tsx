import { type ReactNode, useEffect, useState } from "react";
import { Icon } from "../../ui/icons";

interface BranchProps {
  readonly label: string;
  readonly icon?: ReactNode;
  readonly badge?: ReactNode;
  /** Opens it at first, and again when this becomes true later. */
  readonly startsOpen?: boolean;
  readonly children: () => ReactNode;
}

/** A name that expands to its content, which is loaded on demand. */
export function Branch({ label, icon, badge, startsOpen = false, children }: BranchProps) {
  const [isOpen, setOpen] = useState(startsOpen);
  useEffect(() => {
    if (startsOpen) setOpen(true);
  }, [startsOpen]);
  return (
    <div className="branch">
      <button type="button" className="item" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span className={isOpen ? "chevron open" : "chevron"}>
          <Icon name="chevron" />
        </span>
        {icon}
        <span className="item-name">{label}</span>
        {badge}
      </button>
      {isOpen ? <div className="branch-content">{children()}</div> : null}
    </div>
  );
}
