import { useCallback, useState, useSyncExternalStore } from "react";
import { fixedRows, type RowSource, type StreamRows } from "./rows";

export interface StreamView {
  readonly source: RowSource;
  readonly isPaused: boolean;
  /** Rows that arrived since the view was paused. */
  readonly waiting: number;
  readonly togglePause: () => void;
  readonly clear: () => void;
}

/** Visible rows of a stream: live, or the rows at the time of the pause. */
export function useStreamView(rows: StreamRows): StreamView {
  useSyncExternalStore(rows.subscribe, () => rows.version);
  const [frozen, setFrozen] = useState<{ readonly source: RowSource; readonly received: number } | null>(
    null,
  );

  const togglePause = useCallback(() => {
    setFrozen((before) =>
      before === null ? { source: fixedRows(rows.toArray(), rows.dropped), received: rows.received } : null,
    );
  }, [rows]);

  const clear = useCallback(() => {
    rows.clear();
    setFrozen(null);
  }, [rows]);

  return {
    source: frozen?.source ?? rows,
    isPaused: frozen !== null,
    waiting: frozen === null ? 0 : rows.received - frozen.received,
    togglePause,
    clear,
  };
}
