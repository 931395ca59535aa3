/** A system relation as a table, with a filter over its texts. */

import { useMemo } from "react";
import { countText } from "../grid/values";
import { DataTable } from "../ui/data-table";
import { Loaded } from "../ui/loaded";
import { SearchBox } from "../ui/search-box";
import type { SortKey } from "../ui/sorting";
import { compactText, timeText } from "../ui/text";
import { type Fields, momentOf, numberOf, selectFrom } from "./select";
import { useAnswer } from "./use-answer";

export interface RelationColumn {
  readonly name: string;
  readonly title: string;
  readonly kind?: "time" | "number" | "code" | "keyword" | "boolean";
  readonly from?: "medium" | "wide" | "widest";
}

/** A system relation and what of it is shown. */
export interface RelationView {
  readonly title: string;
  readonly relation: string;
  readonly columns: readonly RelationColumn[];
  /** The text behind FROM: a condition, an order, a limit. */
  readonly rest?: string;
  /** Text about such an object, and the statement that adds one. */
  readonly about: string;
}

interface ShownRow {
  readonly fields: Fields<string>;
  readonly key: string;
}

interface RelationTableProps {
  readonly view: RelationView;
  readonly text: string;
  readonly sort: string | undefined;
  readonly onText: (text: string) => void;
  readonly onSort: (sort: string | undefined) => void;
}

export function RelationTable({ view, text, sort, onText, onSort }: RelationTableProps) {
  const select = useMemo(
    () =>
      selectFrom(
        view.relation,
        view.columns.map((column) => column.name),
        view.rest,
      ),
    [view],
  );
  const { data, failure } = useAnswer(select);
  const shown = useMemo(() => withWords(data ?? [], text), [data, text]);
  return (
    <>
      <p className="note about">{view.about}</p>
      <search className="filters" aria-label="Filter">
        <SearchBox
          label={`Filter ${view.title.toLowerCase()}`}
          placeholder="Filter"
          value={text}
          onChange={onText}
        />
        {data === null ? null : (
          <span className="faint" role="status">
            {shown.length === data.length ? "" : `${shown.length} of `}
            {countText(data.length, "row")}
          </span>
        )}
      </search>
      <Loaded data={data} failure={failure}>
        {(rows) =>
          shown.length === 0 ? (
            <p className="empty-text">
              {rows.length === 0 ? "There are none, or none that your role may see." : "Nothing matches."}
            </p>
          ) : (
            <DataTable
              label={view.title}
              rows={shown.map((fields, index) => ({ fields, key: String(index) }))}
              keyOf={(row) => row.key}
              sort={sort}
              onSort={onSort}
              columns={view.columns.map((column) => ({
                id: column.name,
                title: column.title,
                isNumber: column.kind === "number",
                ...(column.from === undefined ? {} : { from: column.from }),
                sortKey: (row: ShownRow) => sortKey(column, row.fields[column.name] ?? null),
                cell: (row: ShownRow) => shownCell(column, row.fields[column.name] ?? null),
              }))}
            />
          )
        }
      </Loaded>
    </>
  );
}

/** The rows that contain all words of a text, in any columns. */
export function withWords<Name extends string>(
  rows: readonly Fields<Name>[],
  text: string,
): readonly Fields<Name>[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return rows;
  return rows.filter((row) => {
    const all = Object.values(row).join(" ").toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

function sortKey(column: RelationColumn, cell: string | null): SortKey {
  return column.kind === "number" ? numberOf(cell) : cell;
}

function shownCell(column: RelationColumn, cell: string | null) {
  if (cell === null || cell === "") return <span className="faint">–</span>;
  switch (column.kind) {
    case "time":
      return <span className="moment">{timeText(momentOf(cell))}</span>;
    case "number":
      return compactText(numberOf(cell));
    case "boolean":
      return cell === "true" ? "yes" : "no";
    case "keyword":
      return <code className="keyword">{cell}</code>;
    case "code":
      return <code className="wrapped">{cell}</code>;
    default:
      return <span className="wrapped">{cell}</span>;
  }
}
