import type { Cell, Column } from "../api/wire";
import { Dialog } from "../ui/dialog";
import { CellContent } from "./cell";
import { wholeValue } from "./values";

interface CellViewerProps {
  readonly column: Column;
  readonly cell: Cell;
  readonly rowNumber: number;
  readonly onClose: () => void;
}

export function CellViewer({ column, cell, rowNumber, onClose }: CellViewerProps) {
  return (
    <Dialog title={`${column.name}, row ${rowNumber.toLocaleString("en-US")}`} onClose={onClose}>
      <p className="viewer-type">
        {column.type}
        {column.nullable ? "" : " NOT NULL"}
        {cell === null ? "" : ` · ${cell.length.toLocaleString("en-US")} characters`}
      </p>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard must be able to scroll a long value. */}
      <pre className="viewer-value" tabIndex={0}>
        {cell === null || cell === "" ? <CellContent cell={cell} /> : wholeValue(cell)}
      </pre>
    </Dialog>
  );
}
