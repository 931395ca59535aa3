/** Moving through a grid by keyboard. */

export interface CellPosition {
  readonly row: number;
  readonly column: number;
}

export interface GridSize {
  readonly rows: number;
  readonly columns: number;
  readonly page: number;
}

/** Target cell of a key, or null if it is not a movement. */
export function moved(
  at: CellPosition,
  key: string,
  isControl: boolean,
  size: GridSize,
): CellPosition | null {
  const lastRow = size.rows - 1;
  const lastColumn = size.columns - 1;
  const row = (next: number) => ({ ...at, row: Math.max(0, Math.min(lastRow, next)) });
  const column = (next: number) => ({ ...at, column: Math.max(0, Math.min(lastColumn, next)) });
  switch (key) {
    case "ArrowUp":
      return row(isControl ? 0 : at.row - 1);
    case "ArrowDown":
      return row(isControl ? lastRow : at.row + 1);
    case "ArrowLeft":
      return column(isControl ? 0 : at.column - 1);
    case "ArrowRight":
      return column(isControl ? lastColumn : at.column + 1);
    case "PageUp":
      return row(at.row - size.page);
    case "PageDown":
      return row(at.row + size.page);
    case "Home":
      return isControl ? { row: 0, column: 0 } : column(0);
    case "End":
      return isControl ? { row: lastRow, column: lastColumn } : column(lastColumn);
    default:
      return null;
  }
}
