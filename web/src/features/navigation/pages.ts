/** The pages of the navigation, in its order. `key` follows `g` as a shortcut. */

import type { ConsoleParts } from "../../api/statements";

const PAGES = [
  { to: "/", name: "SQL", icon: "sql", key: "w", words: "workspace" },
  { to: "/queries", name: "Queries", icon: "queries", key: "q", words: "queries" },
  { to: "/lineage", name: "Lineage", icon: "lineage", key: "l", words: "lineage" },
  { to: "/catalog", name: "Catalog", icon: "catalog", key: "c", words: "catalog" },
  { to: "/stores", name: "Stores", icon: "store", key: "s", words: "stores" },
  { to: "/access", name: "Access", icon: "access", key: "a", words: "access" },
  { to: "/resources", name: "Resources", icon: "resources", key: "r", words: "resources" },
  { to: "/graphiql", name: "GraphQL", icon: "graphql", key: "h", words: "GraphQL", part: "graphiql" },
] as const;

export type NavigationPage = (typeof PAGES)[number];
export type PagePath = NavigationPage["to"];

/** The pages of a server: those that a setting switches on only if it does. */
export function pagesOf(parts: ConsoleParts | null): readonly NavigationPage[] {
  return PAGES.filter((page) => !("part" in page) || parts?.[page.part] === true);
}

/** The page that a pressed key leads to, after `g`. */
export function pageOfKey(pages: readonly NavigationPage[], key: string): PagePath | null {
  return pages.find((page) => page.key === key)?.to ?? null;
}

/** True if an address belongs to the page at `to`. */
export function isAt(to: PagePath, pathname: string): boolean {
  return to === "/"
    ? pathname === "/" || pathname === "/sql"
    : pathname === to || pathname.startsWith(`${to}/`);
}
