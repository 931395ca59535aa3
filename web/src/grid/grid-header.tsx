import type { Header, RowData } from "@tanstack/react-table";
import type { Column } from "../api/wire";
import { type gridFeatures, isRightAligned } from "./columns";

interface GridHeaderProps<TRow extends RowData> {
  readonly headers: readonly Header<typeof gridFeatures, TRow, unknown>[];
  readonly columns: readonly Column[];
  /** Headers are found by `idPrefix-head-index`, to scroll a column into sight. */
  readonly idPrefix: string;
}

function titleOf(column: Column): string {
  if (column.isOp) return "What the row does to its key: insert, update or delete it";
  return `${column.name} ${column.type}${column.nullable ? "" : " NOT NULL"}`;
}

export function GridHeader<TRow extends RowData>({ headers, columns, idPrefix }: GridHeaderProps<TRow>) {
  return (
    <div className="grid-head" role="row" aria-rowindex={1}>
      <div className="grid-number" role="columnheader" aria-colindex={1}>
        <span className="hidden">Row</span>
      </div>
      {headers.map((header, index) => {
        const column = columns[index];
        if (column === undefined) return null;
        return (
          <div
            key={header.id}
            id={`${idPrefix}-head-${index}`}
            role="columnheader"
            aria-colindex={index + 2}
            className={isRightAligned(column) ? "grid-title right" : "grid-title"}
            style={{ width: header.getSize() }}
            title={titleOf(column)}
          >
            <span className="grid-name">{column.name}</span>
            <span className="grid-type">{column.type}</span>
            {/* Pointer only: a keyboard reads long values in the cell viewer. */}
            <span
              className="grid-handle"
              aria-hidden="true"
              onMouseDown={header.getResizeHandler()}
              onTouchStart={header.getResizeHandler()}
              onDoubleClick={() => header.column.resetSize()}
            />
          </div>
        );
      })}
    </div>
  );
}
