/** A virtual grid over a RowSource: only the rows in sight exist in the page. */

import { useTable } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ClipboardEvent, type KeyboardEvent, useId, useMemo, useRef, useState } from "react";
import type { Column, Row } from "../api/wire";
import type { Order } from "./arrange";
import { type CellPosition, moved } from "./cell-position";
import { CellViewer } from "./cell-viewer";
import { columnDefinitions, gridFeatures } from "./columns";
import { GridHeader } from "./grid-header";
import { GridRow } from "./grid-row";
import type { RowSource } from "./rows";
import { useTail } from "./use-tail";

/** Every row is as high as every other, so that ten thousand of them need no measuring. */
const ROW_HEIGHT_PX = 27;
const HEAD_HEIGHT_PX = 30;
const NUMBER_WIDTH_PX = 64;
// The virtualizer holds the rows. The table is there for the columns: it would build 10,000 row objects per frame.
const NO_ROWS: Row[] = [];

interface GridProps {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly source: RowSource;
  readonly isFollowing: boolean;
  readonly onFollow: (isFollowing: boolean) => void;
  readonly order?: Order | null;
  /** Called when the reader orders the rows by a column. */
  readonly onOrder?: (column: number) => void;
}

export function Grid({ label, columns, source, isFollowing, onFollow, order = null, onOrder }: GridProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const gridId = useId();
  const [active, setActive] = useState<CellPosition>({ row: 0, column: 0 });
  const [viewed, setViewed] = useState<CellPosition | null>(null);
  const isEmpty = source.length === 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: widths are set by the first rows, and then left alone.
  const definitions = useMemo(() => columnDefinitions(columns, source), [columns, isEmpty]);
  const table = useTable({
    features: gridFeatures,
    columns: definitions,
    data: NO_ROWS,
    columnResizeMode: "onChange",
  });
  const headers = table.getHeaderGroups()[0]?.headers ?? [];
  const widths = headers.map((header) => header.getSize());
  const width = widths.reduce((sum, size) => sum + size, NUMBER_WIDTH_PX);
  const virtualizer = useVirtualizer({
    count: source.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT_PX,
    scrollMargin: HEAD_HEIGHT_PX,
    scrollPaddingStart: HEAD_HEIGHT_PX,
    overscan: 12,
  });
  useTail({ scroller, source, isFollowing, onFollow });

  function onKeyDown(event: KeyboardEvent<HTMLDivElement>): void {
    if (event.key === "Enter" && source.at(active.row) !== undefined) {
      event.preventDefault();
      setViewed(active);
      return;
    }
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / ROW_HEIGHT_PX) - 2);
    const size = { rows: source.length, columns: columns.length, page };
    const next = moved(active, event.key, event.ctrlKey || event.metaKey, size);
    if (next === null) return;
    event.preventDefault();
    setActive(next);
    if (next.row !== active.row) {
      onFollow(false);
      virtualizer.scrollToIndex(next.row);
    }
    document
      .getElementById(`${gridId}-head-${next.column}`)
      ?.scrollIntoView({ inline: "nearest", block: "nearest" });
  }

  function onCopy(event: ClipboardEvent<HTMLDivElement>): void {
    if (document.getSelection()?.isCollapsed === false) return;
    event.clipboardData.setData("text/plain", source.at(active.row)?.[active.column] ?? "");
    event.preventDefault();
  }

  const viewedColumn = viewed === null ? undefined : columns[viewed.column];
  const viewedCell = viewed === null ? undefined : source.at(viewed.row)?.[viewed.column];
  return (
    <>
      <div
        ref={scroller}
        className="grid"
        role="grid"
        tabIndex={0}
        aria-label={label}
        aria-rowcount={source.length + 1}
        aria-colcount={columns.length + 1}
        aria-activedescendant={isEmpty ? undefined : `${gridId}-${active.row}-${active.column}`}
        onKeyDown={onKeyDown}
        onCopy={onCopy}
      >
        <div style={{ width, minWidth: "100%" }}>
          <GridHeader headers={headers} columns={columns} idPrefix={gridId} order={order} onOrder={onOrder} />
          <div role="rowgroup" className="grid-body" style={{ height: virtualizer.getTotalSize() }}>
            {virtualizer.getVirtualItems().map((item) => (
              <GridRow
                key={item.index}
                idPrefix={gridId}
                index={item.index}
                number={source.dropped + item.index + 1}
                row={source.at(item.index)}
                columns={columns}
                widths={widths}
                top={item.start - HEAD_HEIGHT_PX}
                activeColumn={active.row === item.index ? active.column : null}
                onActivate={setActive}
                onView={setViewed}
              />
            ))}
          </div>
        </div>
      </div>
      {viewed === null || viewedColumn === undefined ? null : (
        <CellViewer
          column={viewedColumn}
          cell={viewedCell ?? null}
          rowNumber={source.dropped + viewed.row + 1}
          onClose={() => setViewed(null)}
        />
      )}
    </>
  );
}
