import { type KeyboardEvent, useId, useRef, useState } from "react";
import { Icon } from "../../ui/icons";
import { ShareDialog } from "./share-dialog";
import { ClosedWorksheets, RenameWorksheet } from "./worksheet-dialogs";
import { openSheets, type Worksheet, type WorksheetState, type Worksheets } from "./worksheets";

/** Id of the element with the editor, which the tabs control. */
export const EDITOR_PANEL = "worksheet-editor";

interface WorksheetTabsProps {
  readonly worksheets: Worksheets;
  readonly state: WorksheetState;
  readonly onChoose: (id: string) => void;
  readonly onNew: () => void;
}

/** A tab for each open worksheet, by the pattern of ARIA, and what can be done with the one that is shown. */
export function WorksheetTabs({ worksheets, state, onChoose, onNew }: WorksheetTabsProps) {
  const base = useId();
  const list = useRef<HTMLDivElement>(null);
  const [dialog, setDialog] = useState<"rename" | "closed" | "share" | null>(null);
  const open = openSheets(state);
  const active = open.find((sheet) => sheet.id === state.active);
  const closed = state.sheets.filter((sheet) => !sheet.isOpen);
  const moveTo = (sheet: Worksheet | undefined) => {
    if (sheet === undefined) return;
    onChoose(sheet.id);
    list.current?.querySelector<HTMLElement>(`[data-sheet="${sheet.id}"]`)?.focus();
  };

  function onKeyDown(event: KeyboardEvent): void {
    const place = open.findIndex((sheet) => sheet.id === state.active);
    const targets: Readonly<Record<string, number>> = {
      ArrowRight: (place + 1) % open.length,
      ArrowLeft: (place - 1 + open.length) % open.length,
      Home: 0,
      End: open.length - 1,
    };
    const target = targets[event.key];
    if (target !== undefined) moveTo(open[target]);
    else if (event.key === "Delete" && active !== undefined) close(active);
    else if (event.key === "F2") setDialog("rename");
    else return;
    event.preventDefault();
  }

  function close(sheet: Worksheet): void {
    const place = open.indexOf(sheet);
    const next = open[place + 1] ?? open[place - 1];
    worksheets.close(sheet.id);
    moveTo(next);
  }

  return (
    <div className="worksheets">
      <div className="tabs" role="tablist" aria-label="Worksheets" ref={list} onKeyDown={onKeyDown}>
        {open.map((sheet) => (
          <button
            key={sheet.id}
            id={`${base}-${sheet.id}`}
            data-sheet={sheet.id}
            type="button"
            role="tab"
            aria-selected={sheet === active}
            aria-controls={EDITOR_PANEL}
            tabIndex={sheet === active ? 0 : -1}
            title={`${sheet.name} (Delete closes, F2 renames)`}
            onClick={() => onChoose(sheet.id)}
            onDoubleClick={() => setDialog("rename")}
          >
            {sheet.name}
            {sheet.isDirty ? (
              <span className="unsaved" title="Not saved yet">
                <span className="hidden">, not saved yet</span>
              </span>
            ) : null}
          </button>
        ))}
      </div>
      <button
        type="button"
        className="ghost"
        aria-label="New worksheet"
        title="New worksheet"
        onClick={onNew}
      >
        <Icon name="plus" />
      </button>
      {active === undefined ? null : (
        <>
          <button
            type="button"
            className="ghost"
            aria-label={`Rename ${active.name}`}
            title="Rename"
            onClick={() => setDialog("rename")}
          >
            <Icon name="write" />
          </button>
          <button
            type="button"
            className="ghost"
            aria-label={`Share ${active.name}`}
            title="Share by a link"
            onClick={() => setDialog("share")}
          >
            <Icon name="copy" />
          </button>
          <button
            type="button"
            className="ghost"
            aria-label={`Close ${active.name}`}
            title="Close"
            onClick={() => close(active)}
          >
            <Icon name="close" />
          </button>
        </>
      )}
      {closed.length === 0 ? null : (
        <button
          type="button"
          className="ghost"
          aria-label="Closed worksheets"
          title="Closed worksheets"
          onClick={() => setDialog("closed")}
        >
          <Icon name="undo" />
        </button>
      )}
      {dialog === "rename" && active !== undefined ? (
        <RenameWorksheet
          sheet={active}
          onRename={(name) => worksheets.edit(active.id, { name })}
          onClose={() => setDialog(null)}
        />
      ) : null}
      {dialog === "share" && active !== undefined ? (
        <ShareDialog sheet={active} onClose={() => setDialog(null)} />
      ) : null}
      {dialog === "closed" ? (
        <ClosedWorksheets
          sheets={closed}
          onOpen={(sheet) => {
            worksheets.edit(sheet.id, { isOpen: true });
            onChoose(sheet.id);
            setDialog(null);
          }}
          onDelete={(sheet) => worksheets.remove(sheet.id)}
          onClose={() => setDialog(null)}
        />
      ) : null}
    </div>
  );
}
