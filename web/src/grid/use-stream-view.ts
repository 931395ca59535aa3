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

interface Frozen {
  readonly changes: RowSource;
  readonly current: RowSource;
  readonly received: number;
}

/** Visible rows of a stream: live, or the rows at the time of the pause. `isCurrent` shows the newest row of each key instead of all. */
export function useStreamView(rows: StreamRows, isCurrent = false): StreamView {
  useSyncExternalStore(rows.subscribe, () => rows.version);
  const [frozen, setFrozen] = useState<Frozen | null>(null);

  const togglePause = useCallback(() => {
    setFrozen((before) =>
      before === null
        ? {
            changes: fixedRows(rows.toArray(), rows.dropped),
            current: fixedRows(rows.currentRows()),
            received: rows.received,
          }
        : null,
    );
  }, [rows]);

  const clear = useCallback(() => {
    rows.clear();
    setFrozen(null);
  }, [rows]);

  const live = () => (isCurrent ? fixedRows(rows.currentRows()) : rows);
  return {
    source: frozen === null ? live() : isCurrent ? frozen.current : frozen.changes,
    isPaused: frozen !== null,
    waiting: frozen === null ? 0 : rows.received - frozen.received,
    togglePause,
    clear,
  };
}
