import type { ReactNode } from "react";
import type { Failure } from "../api/failures";

interface ItemsProps<TItem> {
  /** The last items that were read; null before the first ones. */
  readonly items: readonly TItem[] | null;
  readonly failure: Failure | null;
  readonly empty: ReactNode;
  readonly keyOf: (item: TItem) => string;
  readonly render: (item: TItem) => ReactNode;
}

/** A list in each of its states: on its way, failed, empty, or there. */
export function Items<TItem>({ items, failure, empty, keyOf, render }: ItemsProps<TItem>) {
  if (items === null) {
    return failure === null ? (
      <div className="skeleton" role="status" aria-label="Loading" />
    ) : (
      <p className="list-note danger">{failure.message}</p>
    );
  }
  return (
    <>
      {/* The page's banner speaks for all lists when the server is away. */}
      {failure === null || failure.kind === "away" ? null : (
        <p className="list-note danger">Not up to date: {failure.message}</p>
      )}
      {items.length === 0 ? <p className="list-note">{empty}</p> : null}
      <ul className="list">
        {items.map((item) => (
          <li key={keyOf(item)}>{render(item)}</li>
        ))}
      </ul>
    </>
  );
}
