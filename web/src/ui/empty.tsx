import type { ReactNode } from "react";

interface EmptyProps {
  readonly title: string;
  readonly children: ReactNode;
}

/** Says what would be here and what to do about it. */
export function Empty({ title, children }: EmptyProps) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      <div className="empty-text">{children}</div>
    </div>
  );
}
