import type { Header, RowData } from "@tanstack/react-table";
import type { Column } from "../api/wire";
import { Icon } from "../ui/icons";
import type { Order } from "./arrange";
import { type gridFeatures, isRightAligned } from "./columns";

interface GridHeaderProps<TRow extends RowData> {
  readonly headers: readonly Header<typeof gridFeatures, TRow, unknown>[];
  readonly columns: readonly Column[];
  /** Headers are found by `idPrefix-head-index`, to scroll a column into sight. */
  readonly idPrefix: string;
  readonly order: Order | null;
  /** Called with a column; the rows have a fixed order without it. */
  readonly onOrder: ((column: number) => void) | undefined;
}

function titleOf(column: Column): string {
  if (column.isOp) return "What the row does to its key: insert, update or delete it";
  return `${column.name} ${column.type}${column.nullable ? "" : " NOT NULL"}`;
}

export function GridHeader<TRow extends RowData>(props: GridHeaderProps<TRow>) {
  const { headers, columns, idPrefix, order, onOrder } = props;
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
            // Pointer only: a keyboard orders the rows in the dialog of the columns.
            onClick={() => onOrder?.(index)}
            data-orders={onOrder !== undefined}
            style={{ width: header.getSize() }}
            title={titleOf(column)}
            aria-sort={order?.column !== index ? undefined : order.isDescending ? "descending" : "ascending"}
          >
            <span className="grid-label">
              <span className="grid-name">{column.name}</span>
              <span className="grid-type">{column.type}</span>
              {order?.column === index ? <Icon name={order.isDescending ? "down" : "up"} /> : null}
            </span>
            {/* Pointer only: a keyboard reads long values in the cell viewer. */}
            <span
              className="grid-handle"
              aria-hidden="true"
              onMouseDown={header.getResizeHandler()}
              onTouchStart={header.getResizeHandler()}
              onClick={(event) => event.stopPropagation()}
              onDoubleClick={() => header.column.resetSize()}
            />
          </div>
        );
      })}
    </div>
  );
}
