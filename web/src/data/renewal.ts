/** Rules for which changes of the catalog renew which answers. */

import type { ChangeKind } from "../api/operations";

/** The relations whose rows are the objects of a kind, and others that derive from them. */
const CHANGED: Readonly<Record<ChangeKind, readonly string[]>> = {
  ALERTS: ["alerts"],
  COMPUTE_POOLS: ["compute_pools"],
  DATABASES: ["databases"],
  DESCRIPTOR_SOURCES: ["descriptor_sources", "descriptors"],
  FUNCTION_SOURCES: ["function_sources"],
  FUNCTIONS: ["functions"],
  GRANTS: ["grants", "future_grants", "effective_privileges", "roles", "users"],
  LIVE_QUERIES: ["live_queries"],
  QUERIES: [
    "queries",
    "query_events",
    "query_versions",
    "query_plan_steps",
    "lineage",
    "column_lineage",
    // A pool has the number of its queries, and a store what its queries meet.
    "compute_pools",
    "stores",
  ],
  RELATIONS: ["relations", "relation_columns", "entities", "lineage", "column_lineage", "stores"],
  ROLES: ["roles", "effective_privileges"],
  SAVEPOINTS: ["savepoints"],
  SCHEMA_REGISTRIES: ["schema_registries"],
  SCHEMAS: ["schemas"],
  SECRETS: ["secrets"],
  STORES: ["stores"],
};

/** The system relations that changes of these kinds may have changed. */
export function relationsOf(kinds: Iterable<ChangeKind>): ReadonlySet<string> {
  // The definitions are of all objects. A kind of a newer server is unknown here.
  const names = [...kinds].flatMap((kind) => CHANGED[kind] ?? []);
  return new Set(names.length === 0 ? [] : [...names, "definitions"]);
}

/** Time for which changes are collected before answers are renewed, after those that were renewed at once. */
export const COLLECTED_MS = 1000;

/** Calls `renew` at once with the first item, and with the items that come within the time after it together. */
export function collected<T>(renew: (items: ReadonlySet<T>) => void, everyMs: number) {
  let items = new Set<T>();
  let timer: ReturnType<typeof setTimeout> | null = null;
  function flush(): void {
    timer = null;
    if (items.size === 0) return;
    const collectedItems = items;
    items = new Set();
    timer = setTimeout(flush, everyMs);
    renew(collectedItems);
  }
  return {
    add(added: Iterable<T>): void {
      for (const item of added) items.add(item);
      if (timer === null) flush();
    },
    stop(): void {
      if (timer !== null) clearTimeout(timer);
      timer = null;
      items.clear();
    },
  };
}

/** A row without those of the keys that were removed, and with the rows that are new or changed. */
export function updated<Row>(
  rows: readonly Row[],
  update: { readonly nodes: readonly Row[]; readonly removed: readonly (readonly (string | null)[])[] },
  keyOf: (row: Row) => readonly (string | null)[],
): readonly Row[] {
  const text = (key: readonly (string | null)[]) => JSON.stringify(key);
  const changed = new Map(update.nodes.map((row) => [text(keyOf(row)), row]));
  const removed = new Set(update.removed.map(text));
  const kept = rows.flatMap((row) => {
    const key = text(keyOf(row));
    const other = changed.get(key);
    changed.delete(key);
    return other !== undefined ? [other] : removed.has(key) ? [] : [row];
  });
  return [...kept, ...changed.values()];
}
