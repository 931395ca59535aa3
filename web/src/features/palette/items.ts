/** Items of the palette: pages, commands and objects, and their order for a text. */

import type { ContextField } from "../../catalog/context";
import type { QueryRow, RelationRow, SchemaRow, StoreRow } from "../../catalog/lists";
import { isEnded, queryItems } from "../../catalog/workload";
import type { IconName } from "../../ui/icons";

export type Command =
  | { readonly kind: "use"; readonly field: ContextField }
  | { readonly kind: "theme"; readonly theme: "system" | "light" | "dark" }
  | { readonly kind: "new-worksheet" | "shortcuts" | "tour" | "refresh" | "sign-out" };

/** Destination of an item. */
type Target =
  | { readonly kind: "page"; readonly path: string }
  | { readonly kind: "command"; readonly command: Command }
  | { readonly kind: "relation"; readonly path: readonly [string, string, string] }
  | { readonly kind: "query"; readonly id: string }
  | { readonly kind: "store"; readonly name: string }
  | { readonly kind: "catalog"; readonly text: string }
  | { readonly kind: "resources"; readonly tab: string; readonly text: string };

export interface PaletteItem {
  /** The same at each reading of the objects, so that it is recognized as recent. */
  readonly id: string;
  readonly title: string;
  /** Kind of the item in words, and where it is. */
  readonly kind: string;
  readonly note: string;
  readonly icon: IconName;
  readonly target: Target;
}

interface PageFacts {
  readonly to: string;
  readonly name: string;
  readonly icon: IconName;
}

export function pageItems(pages: readonly PageFacts[]): readonly PaletteItem[] {
  return pages.map(({ to, name, icon }) => ({
    id: `page ${to}`,
    title: name,
    kind: "page",
    note: "",
    icon,
    target: { kind: "page", path: to },
  }));
}

export const COMMANDS: readonly PaletteItem[] = [
  command("New worksheet", "tab editor", "plus", { kind: "new-worksheet" }),
  command("Use another role", "switch role", "access", { kind: "use", field: "role" }),
  command("Use another database", "switch database", "catalog", { kind: "use", field: "database" }),
  command("Use another schema", "switch schema", "catalog", { kind: "use", field: "schema" }),
  command("Use another store", "switch store", "store", { kind: "use", field: "store" }),
  command("Use another compute pool", "switch pool", "resources", { kind: "use", field: "computePool" }),
  command("Colours: system", "theme", "theme-system", { kind: "theme", theme: "system" }),
  command("Colours: light", "theme", "theme-light", { kind: "theme", theme: "light" }),
  command("Colours: dark", "theme", "theme-dark", { kind: "theme", theme: "dark" }),
  command("Keyboard shortcuts", "keys help", "sql", { kind: "shortcuts" }),
  command("Take the tour", "start help first rows", "play", { kind: "tour" }),
  command("Refresh", "read all objects anew", "refresh", { kind: "refresh" }),
  command("Sign out", "log out", "sign-out", { kind: "sign-out" }),
];

function command(title: string, note: string, icon: IconName, does: Command): PaletteItem {
  return {
    id: `command ${title}`,
    title,
    kind: "action",
    note,
    icon,
    target: { kind: "command", command: does },
  };
}

/** The rows of the lists that have an item for each object. */
export interface Objects {
  readonly databases: readonly { readonly name: string }[];
  readonly schemas: readonly SchemaRow[];
  readonly relations: readonly RelationRow[];
  readonly stores: readonly StoreRow[];
  readonly queries: readonly QueryRow[];
  readonly pools: readonly { readonly name: string }[];
  readonly functions: readonly { readonly name: string; readonly kind: string }[];
}

export function objectItems(objects: Objects): readonly PaletteItem[] {
  return [
    ...objects.relations.map((row): PaletteItem => {
      const path = [row.databaseName, row.schemaName, row.name] as const;
      const kind = row.relationType.replaceAll("_", " ");
      return object(kind, path[2], `${path[0]}.${path[1]}`, "entity", { kind: "relation", path });
    }),
    ...queryItems(objects.queries)
      .filter((query) => !isEnded(query))
      .map(({ id, name, state }): PaletteItem => {
        return { ...object("query", name, state, "queries", { kind: "query", id }), id: `query ${id}` };
      }),
    ...objects.stores.map(({ name, storeType }): PaletteItem => {
      return object("store", name, storeType, "store", { kind: "store", name });
    }),
    ...objects.databases.map(({ name }): PaletteItem => {
      return object("database", name, "", "catalog", { kind: "catalog", text: `${name}.` });
    }),
    ...objects.schemas.map(({ databaseName, name }): PaletteItem => {
      const text = `${databaseName}.${name}.`;
      return object("schema", name, databaseName, "folder", { kind: "catalog", text });
    }),
    ...objects.pools.map(({ name: text }): PaletteItem => {
      return object("compute pool", text, "", "resources", { kind: "resources", tab: "pools", text });
    }),
    ...objects.functions.map(({ name: text, kind }): PaletteItem => {
      return object("function", text, kind, "sql", { kind: "resources", tab: "functions", text });
    }),
  ];
}

function object(kind: string, title: string, note: string, icon: IconName, target: Target): PaletteItem {
  return { id: `${kind} ${note} ${title}`, title, kind, note, icon, target };
}

/** Limit of the items that are shown, so that a large catalog does not slow down typing. */
export const SHOWN_MAX = 50;

/**
 * The items that contain all words of a text, best first: the title is the text, begins with it, has a word that does, contains it; the
 * rest contains it. Of equal ones the recent come first, newest first; else the given order stays.
 */
export function matching(
  items: readonly PaletteItem[],
  text: string,
  recent: readonly string[],
): readonly PaletteItem[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const places = new Map(recent.map((id, place) => [id, place]));
  const ranked = items.flatMap((item, order) => {
    const rank = rankOf(item, words);
    return rank === null ? [] : [{ item, rank, place: places.get(item.id) ?? recent.length, order }];
  });
  ranked.sort((one, other) => one.rank - other.rank || one.place - other.place || one.order - other.order);
  return ranked.slice(0, SHOWN_MAX).map(({ item }) => item);
}

function rankOf({ title, kind, note }: PaletteItem, words: readonly string[]): number | null {
  const name = title.toLowerCase();
  const all = `${name} ${kind} ${note.toLowerCase()}`;
  if (!words.every((word) => all.includes(word))) return null;
  const whole = words.join(" ");
  if (whole === "" || name === whole) return 0;
  if (name.startsWith(whole)) return 1;
  const parts = name.split(/[^\p{L}\p{N}]+/u);
  if (words.every((word) => parts.some((part) => part.startsWith(word)))) return 2;
  return words.every((word) => name.includes(word)) ? 3 : 4;
}

const RECENT_MAX = 8;

/** The ids of recent items after one was chosen, newest first. */
export function withRecent(recent: readonly string[], id: string): readonly string[] {
  return [id, ...recent.filter((each) => each !== id)].slice(0, RECENT_MAX);
}
