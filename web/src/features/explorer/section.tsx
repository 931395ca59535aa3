import type { ReactNode } from "react";

interface SectionProps {
  readonly title: string;
  readonly count: number | null;
  readonly children: ReactNode;
}

export function Section({ title, count, children }: SectionProps) {
  return (
    <section className="section" aria-label={title}>
      <h2>
        {title}
        {count === null ? null : <span className="count">{count}</span>}
      </h2>
      {children}
    </section>
  );
}
