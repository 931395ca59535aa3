import type { ReactNode } from "react";
import { Tabs } from "../ui/tabs";
import { RelationTable, type RelationView } from "./relation-table";

interface RelationTabsProps {
  readonly label: string;
  readonly views: Readonly<Record<string, RelationView>>;
  /** Further tabs, after those of relations. */
  readonly others?: Readonly<Record<string, { readonly title: string; readonly content: ReactNode }>>;
  /** Content below the relation of a tab. */
  readonly below?: Readonly<Record<string, ReactNode>>;
  /** Part of the address. */
  readonly search: { readonly tab?: string; readonly text?: string; readonly sort?: string };
  readonly onSearch: (search: {
    readonly tab?: string;
    readonly text?: string;
    readonly sort?: string;
  }) => void;
}

/** Several system relations as tabs of a page. Tab, filter and order stand in the address. */
export function RelationTabs(props: RelationTabsProps) {
  const { label, views, others = {}, below = {}, search, onSearch } = props;
  const [first = ""] = Object.keys(views);
  const all: Readonly<Record<string, { readonly title: string }>> = { ...views, ...others };
  const chosen = search.tab !== undefined && search.tab in all ? search.tab : first;
  const view = views[chosen];
  const titles = Object.fromEntries(Object.entries(all).map(([id, each]) => [id, each.title]));
  const change = (part: { readonly text?: string; readonly sort?: string | undefined }) => {
    const entries = Object.entries({ ...search, tab: chosen, ...part });
    onSearch(Object.fromEntries(entries.filter(([, value]) => value !== "" && value !== undefined)));
  };
  return (
    <Tabs label={label} tabs={titles} chosen={chosen} onChoose={(tab) => onSearch({ tab })}>
      {view === undefined ? (
        others[chosen]?.content
      ) : (
        <>
          <RelationTable
            key={chosen}
            view={view}
            text={search.text ?? ""}
            sort={search.sort}
            onText={(text) => change({ text })}
            onSort={(sort) => change({ sort })}
          />
          {below[chosen]}
        </>
      )}
    </Tabs>
  );
}
