import type { ReactNode } from "react";

interface EmptyProps {
  readonly title: string;
  readonly children: ReactNode;
}

/** Empty state: names the missing content and the next step. */
export function Empty({ title, children }: EmptyProps) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      <div className="empty-text">{children}</div>
    </div>
  );
}
