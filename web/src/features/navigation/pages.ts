/** The pages of the navigation, in its order. `key` follows `g` as a shortcut. */

export const PAGES = [
  { to: "/", name: "SQL", icon: "sql", key: "w", words: "workspace" },
  { to: "/queries", name: "Queries", icon: "queries", key: "q", words: "queries" },
  { to: "/lineage", name: "Lineage", icon: "lineage", key: "l", words: "lineage" },
  { to: "/catalog", name: "Catalog", icon: "catalog", key: "c", words: "catalog" },
  { to: "/stores", name: "Stores", icon: "store", key: "s", words: "stores" },
  { to: "/access", name: "Access", icon: "access", key: "a", words: "access" },
  { to: "/resources", name: "Resources", icon: "resources", key: "r", words: "resources" },
] as const;

export type PagePath = (typeof PAGES)[number]["to"];

/** The page that a pressed key leads to, after `g`. */
export function pageOfKey(key: string): PagePath | null {
  return PAGES.find((page) => page.key === key)?.to ?? null;
}

/** True if an address belongs to the page at `to`. */
export function isAt(to: PagePath, pathname: string): boolean {
  return to === "/"
    ? pathname === "/" || pathname === "/sql"
    : pathname === to || pathname.startsWith(`${to}/`);
}
