import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { Dialog } from "../../ui/dialog";
import { COMMAND_KEY, isCommand } from "../../ui/keys";
import { type NavigationPage, pageOfKey } from "./pages";

const SEQUENCE_MS = 1500;

interface ShortcutEvents {
  readonly pages: readonly NavigationPage[];
  readonly onList: () => void;
  readonly onPalette: () => void;
}

/** The command key and K open the palette everywhere; outside of text fields, `g` and a letter open a page, `?` lists all shortcuts. */
export function useShortcuts({ pages, onList, onPalette }: ShortcutEvents): void {
  const navigate = useNavigate();
  const goPressedAt = useRef(Number.NEGATIVE_INFINITY);

  useEffect(() => {
    function onKey(event: KeyboardEvent): void {
      if (event.defaultPrevented || document.querySelector("dialog[open]") !== null) return;
      if (isCommand(event) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        onPalette();
      }
      const isModified = event.ctrlKey || event.metaKey || event.altKey;
      if (isModified || isTyping(event.target)) return;
      const isSecond = event.timeStamp - goPressedAt.current < SEQUENCE_MS;
      goPressedAt.current = event.key === "g" ? event.timeStamp : Number.NEGATIVE_INFINITY;
      if (event.key === "?") onList();
      const page = isSecond ? pageOfKey(pages, event.key) : null;
      if (page !== null) void navigate({ to: page });
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [navigate, pages, onList, onPalette]);
}

interface ShortcutListProps {
  readonly pages: readonly NavigationPage[];
  readonly onClose: () => void;
}

/** The overview of all shortcuts. */
export function ShortcutList({ pages, onClose }: ShortcutListProps) {
  return (
    <Dialog title="Shortcuts" onClose={onClose}>
      <dl className="shortcuts">
        <div>
          <dt>
            <kbd>{COMMAND_KEY}</kbd> <kbd>K</kbd>
          </dt>
          <dd>Find a page, an action or an object</dd>
        </div>
        {pages.map((page) => (
          <div key={page.to}>
            <dt>
              <kbd>g</kbd> <kbd>{page.key}</kbd>
            </dt>
            <dd>Open {page.words}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>{COMMAND_KEY}</kbd> <kbd>Enter</kbd>
          </dt>
          <dd>Run the statement at the cursor, or the selection</dd>
        </div>
        <div>
          <dt>
            <kbd>{COMMAND_KEY}</kbd> <kbd>Shift</kbd> <kbd>Enter</kbd>
          </dt>
          <dd>Run all statements</dd>
        </div>
        <div>
          <dt>
            <kbd>{COMMAND_KEY}</kbd> <kbd>Shift</kbd> <kbd>F</kbd>
          </dt>
          <dd>Format the statements, or the selection</dd>
        </div>
        <div>
          <dt>
            <kbd>Esc</kbd>
          </dt>
          <dd>Stop what runs in the workspace</dd>
        </div>
        <div>
          <dt>
            <kbd>?</kbd>
          </dt>
          <dd>List the shortcuts</dd>
        </div>
      </dl>
    </Dialog>
  );
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}
