import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from "react";
import { Icon, type IconName } from "../../ui/icons";
import { COMMANDS, type Command, matching, objectItems, type PaletteItem, pageItems } from "./items";
import { recentItems, remember } from "./recent";
import { useObjects } from "./use-objects";

interface PaletteProps {
  readonly pages: readonly { readonly to: string; readonly name: string; readonly icon: IconName }[];
  readonly onCommand: (command: Command) => void;
  readonly onClose: () => void;
}

/** A dialog that finds pages, actions and objects by typing: a combobox with a list, by the pattern of ARIA. */
export function Palette({ pages, onCommand, onClose }: PaletteProps) {
  const open = useOpen(onCommand);
  const dialog = useRef<HTMLDialogElement>(null);
  const base = useId();
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const [recent] = useState(recentItems);
  const { objects, failure } = useObjects();
  const items = useMemo(() => [...pageItems(pages), ...COMMANDS, ...objectItems(objects)], [pages, objects]);
  const shown = useMemo(() => matching(items, text, recent), [items, text, recent]);
  const place = Math.min(active, shown.length - 1);
  const chosen = shown[place];
  const taken = useRef<PaletteItem | null>(null);

  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    if (chosen !== undefined)
      document.getElementById(`${base}-${place}`)?.scrollIntoView({ block: "nearest" });
  }, [base, place, chosen]);

  function choose(item: PaletteItem): void {
    remember(item.id);
    taken.current = item;
    dialog.current?.close();
  }

  // The browser has given the focus back by then, and a command may open another dialog.
  function closed(): void {
    onClose();
    if (taken.current !== null) open(taken.current);
  }

  function onKeyDown(event: KeyboardEvent): void {
    const last = shown.length - 1;
    const moves: Readonly<Record<string, number>> = {
      ArrowDown: active >= last ? 0 : active + 1,
      ArrowUp: active <= 0 ? last : Math.min(active, last) - 1,
      PageDown: Math.min(active + 8, last),
      PageUp: Math.max(active - 8, 0),
    };
    const next = moves[event.key];
    if (next !== undefined) setActive(Math.max(next, 0));
    else if (event.key === "Enter" && chosen !== undefined) choose(chosen);
    else return;
    event.preventDefault();
  }

  return (
    <dialog
      ref={dialog}
      className="dialog palette"
      aria-label="Find a page, an action or an object"
      onClose={closed}
    >
      <div className="palette-box">
        <Icon name="search" />
        <input
          type="text"
          role="combobox"
          aria-label="Page, action or object"
          aria-expanded="true"
          aria-controls={`${base}-list`}
          aria-autocomplete="list"
          aria-activedescendant={chosen === undefined ? undefined : `${base}-${place}`}
          placeholder="Page, action or object"
          autoComplete="off"
          spellCheck={false}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            setActive(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div className="palette-list" id={`${base}-list`} role="listbox" aria-label="Matches">
        {shown.map((item, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the combobox, which keeps the focus.
          <div
            key={item.id}
            id={`${base}-${index}`}
            role="option"
            tabIndex={-1}
            className="palette-item"
            aria-selected={item === chosen}
            onClick={() => choose(item)}
          >
            <Icon name={item.icon} />
            <span className="palette-title">{item.title}</span>
            <span className="palette-note">{item.target.kind === "command" ? "" : item.note}</span>
            <span className="palette-kind">{item.kind}</span>
          </div>
        ))}
      </div>
      <p className="palette-foot" role="status">
        {shown.length === 0
          ? "Nothing matches."
          : `${shown.length} ${shown.length === 1 ? "match" : "matches"}`}
        {failure === null ? "" : ` Objects are missing: ${failure.message}`}
      </p>
    </dialog>
  );
}

/** Opens the page of an item, or runs its command. */
function useOpen(onCommand: (command: Command) => void): (item: PaletteItem) => void {
  const navigate = useNavigate();
  return ({ target }) => {
    switch (target.kind) {
      case "command":
        return onCommand(target.command);
      case "page":
        return void navigate({ to: target.path });
      case "relation": {
        const [database, schema, relation] = target.path;
        return void navigate({
          to: "/catalog/$database/$schema/$relation",
          params: { database, schema, relation },
          search: {},
        });
      }
      case "query":
        return void navigate({ to: "/queries/$id", params: { id: target.id }, search: {} });
      case "store":
        return void navigate({ to: "/stores/$store", params: { store: target.name }, search: {} });
      case "catalog":
        return void navigate({ to: "/catalog", search: { text: target.text } });
      case "resources":
        return void navigate({ to: "/resources", search: { tab: target.tab, text: target.text } });
    }
  };
}
