import { useState } from "react";
import type { Column } from "../api/wire";
import { Dialog } from "../ui/dialog";
import { Icon } from "../ui/icons";
import { SearchBox } from "../ui/search-box";
import type { Arranged } from "./use-arranged";

interface ArrangeToolsProps {
  /** All columns of the result. */
  readonly columns: readonly Column[];
  readonly arranged: Arranged;
}

/** The filter over the rows shown, and the dialog for their order and columns. */
export function ArrangeTools({ columns, arranged }: ArrangeToolsProps) {
  const [isOpen, setOpen] = useState(false);
  const { arrangement, change } = arranged;
  const { hidden } = arrangement;
  return (
    <>
      <SearchBox
        label="Filter the rows shown"
        placeholder="Filter the rows shown"
        value={arrangement.text}
        onChange={(text) => change({ text })}
      />
      <button type="button" className="ghost" onClick={() => setOpen(true)}>
        <Icon name="catalog" /> Columns{hidden.size === 0 ? "" : `, ${hidden.size} hidden`}
      </button>
      {isOpen ? <ArrangeDialog columns={columns} arranged={arranged} onClose={() => setOpen(false)} /> : null}
    </>
  );
}

function ArrangeDialog({ columns, arranged, onClose }: ArrangeToolsProps & { readonly onClose: () => void }) {
  const { arrangement, change } = arranged;
  const { hidden, order } = arrangement;
  const toggle = (place: number) => {
    const next = new Set(hidden);
    if (!next.delete(place)) next.add(place);
    change({ hidden: next });
  };
  return (
    <Dialog title="Order and columns" onClose={onClose}>
      <p className="note">They apply to the rows shown. The statement is not run again.</p>
      <div className="field-pair">
        <label className="field">
          Order by
          <select
            value={order?.column ?? ""}
            onChange={(event) =>
              change({
                order:
                  event.target.value === ""
                    ? null
                    : { column: Number(event.target.value), isDescending: order?.isDescending ?? false },
              })
            }
          >
            <option value="">as the rows came</option>
            {columns.map((column, place) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a column is known by its place alone.
              <option key={place} value={place}>
                {column.name}
              </option>
            ))}
          </select>
        </label>
        <label className="field">
          Direction
          <select
            value={order?.isDescending === true ? "descending" : "ascending"}
            disabled={order === null}
            onChange={(event) =>
              order !== null &&
              change({ order: { ...order, isDescending: event.target.value === "descending" } })
            }
          >
            <option value="ascending">ascending</option>
            <option value="descending">descending</option>
          </select>
        </label>
      </div>
      <fieldset className="checks">
        <legend>Columns</legend>
        {columns.map((column, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a column is known by its place alone.
          <label key={place} className="check">
            <input
              type="checkbox"
              checked={!hidden.has(place)}
              disabled={!hidden.has(place) && hidden.size === columns.length - 1}
              onChange={() => toggle(place)}
            />{" "}
            {column.name} <span className="faint">{column.type}</span>
          </label>
        ))}
      </fieldset>
    </Dialog>
  );
}
