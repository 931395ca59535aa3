import type { Column, Row } from "../api/wire";
import { Icon } from "../ui/icons";
import { download, toCsv, toJson, toNdjson } from "./export";

interface ExportButtonsProps {
  readonly columns: readonly Column[];
  readonly rowsToExport: () => readonly Row[];
  readonly isDisabled: boolean;
}

const FORMATS = [
  { name: "CSV", ending: "csv", mediaType: "text/csv", write: toCsv },
  { name: "JSON", ending: "json", mediaType: "application/json", write: toJson },
  { name: "NDJSON", ending: "ndjson", mediaType: "application/x-ndjson", write: toNdjson },
];

export function ExportButtons({ columns, rowsToExport, isDisabled }: ExportButtonsProps) {
  const stem = () => `headrace-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}`;
  return FORMATS.map(({ name, ending, mediaType, write }) => (
    <button
      key={name}
      type="button"
      className="ghost"
      disabled={isDisabled}
      title={`Download the rows shown as ${name}`}
      onClick={() => download(`${stem()}.${ending}`, mediaType, write(columns, rowsToExport()))}
    >
      <Icon name="download" /> {name}
    </button>
  ));
}
