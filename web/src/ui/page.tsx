import { type ReactNode, useEffect } from "react";

interface PageProps {
  /** The name of the page, also of the browser's tab. */
  readonly title: string;
  /** State of an object, beside the title. */
  readonly status?: ReactNode;
  /** Links above the title: the way back. */
  readonly above?: ReactNode;
  /** Facts in a line below the title. */
  readonly facts?: ReactNode;
  readonly actions?: ReactNode;
  /** A page whose content has a fixed height, such as a graph. */
  readonly isFixed?: boolean;
  readonly children: ReactNode;
}

/** A page of the console: its head, and its content below. */
export function Page({ title, status, above, facts, actions, isFixed, children }: PageProps) {
  useEffect(() => {
    const before = document.title;
    document.title = `${title} · Headrace`;
    return () => {
      document.title = before;
    };
  }, [title]);
  return (
    <main className={isFixed === true ? "page fixed" : "page"}>
      <header className="page-head">
        <div className="page-title">
          {above === undefined ? null : <p className="page-above">{above}</p>}
          <div className="page-name">
            <h1>{title}</h1>
            {status}
          </div>
          {facts}
        </div>
        {actions === undefined ? null : <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </main>
  );
}

/** Skeleton of a page whose chunk or first answer is on its way. */
export function PageLoading() {
  return (
    <main className="page" aria-busy="true">
      <h1 className="hidden">Loading</h1>
      <div className="skeleton page-skeleton" style={{ width: "180px" }} />
      <Skeletons />
    </main>
  );
}

export function Skeletons({ rows = 6 }: { readonly rows?: number }) {
  return (
    <div aria-hidden="true">
      {Array.from({ length: rows }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are all the same.
        <div key={index} className="skeleton row-skeleton" />
      ))}
    </div>
  );
}

/** A page that cannot be shown. */
export function PageFailure({ error }: { readonly error: unknown }) {
  return (
    <main className="page">
      <div className="empty">
        <h1 className="empty-title">This page cannot be shown</h1>
        <p className="empty-text">{error instanceof Error ? error.message : String(error)}</p>
        <p>
          <a href="/queries">Queries</a> · <a href="/">Workspace</a>
        </p>
      </div>
    </main>
  );
}
