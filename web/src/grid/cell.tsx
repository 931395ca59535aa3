import type { Cell } from "../api/wire";
import { shownCell } from "./values";

/** The content of one cell: NULL and the empty string look like neither each other nor text. */
export function CellContent({ cell }: { readonly cell: Cell | undefined }) {
  const shown = shownCell(cell);
  switch (shown.kind) {
    case "null":
      return <span className="cell-null">NULL</span>;
    case "empty":
      return <span className="cell-empty">empty</span>;
    case "value":
      return <>{shown.text}</>;
  }
}
