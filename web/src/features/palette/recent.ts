/** The items that were chosen last. They contain names of objects, so they end with the session as its token does. */

import { withRecent } from "./items";

const KEY = "headrace.palette.recent";

export function recentItems(): readonly string[] {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((id) => typeof id === "string") : [];
  } catch {
    return [];
  }
}

export function remember(id: string): void {
  sessionStorage.setItem(KEY, JSON.stringify(withRecent(recentItems(), id)));
}
