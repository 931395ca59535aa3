import type { Column, Row } from "../api/wire";
import { Icon } from "../ui/icons";
import { download, toCsv, toJson } from "./export";

interface ExportButtonsProps {
  readonly columns: readonly Column[];
  readonly rowsToExport: () => readonly Row[];
  readonly isDisabled: boolean;
}

export function ExportButtons({ columns, rowsToExport, isDisabled }: ExportButtonsProps) {
  const name = () => `headrace-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}`;
  return (
    <>
      <button
        type="button"
        className="ghost"
        disabled={isDisabled}
        title="Download the rows shown as CSV"
        onClick={() => download(`${name()}.csv`, "text/csv", toCsv(columns, rowsToExport()))}
      >
        <Icon name="download" /> CSV
      </button>
      <button
        type="button"
        className="ghost"
        disabled={isDisabled}
        title="Download the rows shown as JSON"
        onClick={() => download(`${name()}.json`, "application/json", toJson(columns, rowsToExport()))}
      >
        <Icon name="download" /> JSON
      </button>
    </>
  );
}
