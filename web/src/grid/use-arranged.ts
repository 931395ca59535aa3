import { useMemo, useState } from "react";
import type { Column } from "../api/wire";
import { useNow } from "../ui/use-now";
import {
  type Arrangement,
  AS_IT_CAME,
  movesRows,
  nextOrder,
  type Order,
  rearranged,
  shownPlaces,
  withCells,
} from "./arrange";
import type { RowSource } from "./rows";

/** A pass over 10,000 rows is too much for each frame of a fast stream. */
const RENEWED_EVERY_MS = 500;

export interface Arranged {
  readonly arrangement: Arrangement;
  readonly change: (part: Partial<Arrangement>) => void;
  /** The columns that are not hidden, and the rows with their cells. */
  readonly columns: readonly Column[];
  readonly source: RowSource;
  /** The order by place among the columns shown. */
  readonly order: Order | null;
  /** Called with the place of a column among those shown. */
  readonly onOrder: (place: number) => void;
}

/** The rows of a result as the reader arranges them. Live rows are arranged anew twice a second. */
export function useArranged(columns: readonly Column[], source: RowSource, isLive: boolean): Arranged {
  const [arrangement, setArrangement] = useState<Arrangement>(AS_IT_CAME);
  const isRenewed = isLive && movesRows(arrangement);
  const now = useNow(isRenewed, RENEWED_EVERY_MS);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a live source changes with each frame, and is read at each renewal.
  const moved = useMemo(
    () => (movesRows(arrangement) ? rearranged(source, columns, arrangement) : null),
    [columns, arrangement, isRenewed ? now : source, isRenewed ? 0 : source.length],
  );
  const places = useMemo(() => shownPlaces(columns, arrangement), [columns, arrangement]);
  const shown = useMemo(
    () => places.flatMap((place) => (columns[place] === undefined ? [] : [columns[place]])),
    [columns, places],
  );
  const rows = moved ?? source;
  const place = arrangement.order === null ? -1 : places.indexOf(arrangement.order.column);
  return {
    arrangement,
    change: (part) => setArrangement((before) => ({ ...before, ...part })),
    columns: shown,
    source: places.length === columns.length ? rows : withCells(rows, places),
    order: arrangement.order === null || place < 0 ? null : { ...arrangement.order, column: place },
    onOrder: (index) =>
      setArrangement((before) => ({ ...before, order: nextOrder(before.order, places[index] ?? index) })),
  };
}
