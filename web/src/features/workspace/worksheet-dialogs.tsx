import { useState } from "react";
import { Dialog } from "../../ui/dialog";
import { Icon } from "../../ui/icons";
import type { Worksheet } from "./worksheets";

const NAME_MAX = 200;

interface RenameProps {
  readonly sheet: Worksheet;
  readonly onRename: (name: string) => void;
  readonly onClose: () => void;
}

export function RenameWorksheet({ sheet, onRename, onClose }: RenameProps) {
  const [name, setName] = useState(sheet.name);
  const isUsable = name.trim() !== "";
  return (
    <Dialog title="Rename the worksheet" onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (!isUsable) return;
          onRename(name.trim());
          onClose();
        }}
      >
        <label className="field">
          <span>Name</span>
          <input value={name} maxLength={NAME_MAX} onChange={(event) => setName(event.target.value)} />
        </label>
        <div className="form-actions">
          <button type="submit" className="primary" disabled={!isUsable}>
            Rename
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface ClosedProps {
  readonly sheets: readonly Worksheet[];
  readonly onOpen: (sheet: Worksheet) => void;
  readonly onDelete: (sheet: Worksheet) => void;
  readonly onClose: () => void;
}

/** The closed worksheets, which can be opened again or deleted for good. */
export function ClosedWorksheets({ sheets, onOpen, onDelete, onClose }: ClosedProps) {
  return (
    <Dialog title="Closed worksheets" onClose={onClose}>
      {sheets.length === 0 ? <p className="list-note">There are none.</p> : null}
      <ul className="list">
        {sheets.map((sheet) => (
          <li key={sheet.id} className="closed-sheet">
            <button type="button" className="item leaf" onClick={() => onOpen(sheet)}>
              <span className="item-name">{sheet.name}</span>
              <span className="item-state">{sheet.text.trim().replace(/\s+/g, " ").slice(0, 80)}</span>
            </button>
            <button
              type="button"
              className="ghost"
              aria-label={`Delete ${sheet.name} for good`}
              title="Delete for good"
              onClick={() => onDelete(sheet)}
            >
              <Icon name="clear" />
            </button>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
