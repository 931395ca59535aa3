import type { Cell, Column, Row } from "../api/wire";
import { CellContent } from "./cell";
import type { CellPosition } from "./cell-position";
import { isRightAligned } from "./columns";

interface GridRowProps {
  readonly idPrefix: string;
  readonly index: number;
  readonly number: number;
  readonly row: Row | undefined;
  readonly columns: readonly Column[];
  readonly widths: readonly number[];
  readonly top: number;
  readonly activeColumn: number | null;
  readonly onActivate: (position: CellPosition) => void;
  readonly onView: (position: CellPosition) => void;
}

function cellClass(column: Column, cell: Cell | undefined): string {
  if (column.isOp) return `grid-cell op-${cell}`;
  return isRightAligned(column) ? "grid-cell right" : "grid-cell";
}

export function GridRow(props: GridRowProps) {
  const { idPrefix, index, number, row, columns, widths, top, activeColumn, onActivate, onView } = props;
  // Focus stays on the grid, which handles the keys and points to its active cell by aria-activedescendant.
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      className={number % 2 === 0 ? "grid-row even" : "grid-row"}
      style={{ transform: `translateY(${top}px)` }}
    >
      <div className="grid-number" role="rowheader" aria-colindex={1}>
        {number.toLocaleString("en-US")}
      </div>
      {columns.map((column, place) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: a column is known by its place alone.
          key={place}
          id={`${idPrefix}-${index}-${place}`}
          role="gridcell"
          aria-colindex={place + 2}
          aria-selected={activeColumn === place}
          className={cellClass(column, row?.[place])}
          style={{ width: widths[place] }}
          onClick={() => onActivate({ row: index, column: place })}
          onDoubleClick={() => onView({ row: index, column: place })}
        >
          <CellContent cell={row?.[place]} />
        </div>
      ))}
    </div>
  );
}
