import type { ReactNode } from "react";
import { Icon } from "./icons";
import { nextSorting, readSorting, type SortKey, sorted } from "./sorting";

export interface TableColumn<T> {
  readonly id: string;
  readonly title: string;
  readonly cell: (row: T) => ReactNode;
  /** Order by the column; absent if the table cannot be sorted by it. */
  readonly sortKey?: (row: T) => SortKey;
  readonly isNumber?: boolean;
  /** The width of the page from which the column is shown. */
  readonly from?: "medium" | "wide" | "widest";
}

interface DataTableProps<T> {
  readonly label: string;
  readonly rows: readonly T[];
  readonly columns: readonly TableColumn<T>[];
  readonly keyOf: (row: T) => string;
  readonly sort?: string | undefined;
  readonly onSort?: (sort: string | undefined) => void;
}

/** A table of objects. What has no room in a narrow window is left out, from the least important column on. */
export function DataTable<T>({ label, rows, columns, keyOf, sort, onSort }: DataTableProps<T>) {
  const sorting = readSorting(sort);
  const sortKey = columns.find((column) => column.id === sorting?.id)?.sortKey;
  const ordered =
    sorting === null || sortKey === undefined ? rows : sorted(rows, sortKey, sorting.isDescending);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <section className="table-frame" aria-label={label} tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            {columns.map((column) => {
              const isSorted = sorting?.id === column.id;
              const direction = sorting?.isDescending === true ? "descending" : "ascending";
              return (
                <th
                  key={column.id}
                  scope="col"
                  className={classOf(column)}
                  aria-sort={isSorted ? direction : undefined}
                >
                  {column.sortKey === undefined || onSort === undefined ? (
                    column.title
                  ) : (
                    <button
                      type="button"
                      className="sort"
                      onClick={() => onSort(nextSorting(sort, column.id, column.isNumber === true))}
                    >
                      {column.title}
                      {isSorted ? <Icon name={sorting.isDescending ? "down" : "up"} /> : null}
                    </button>
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {ordered.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((column) => (
                <td key={column.id} className={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function classOf(column: Pick<TableColumn<never>, "isNumber" | "from">): string {
  return `${column.isNumber === true ? "number" : ""} ${column.from === undefined ? "" : `from-${column.from}`}`.trim();
}
