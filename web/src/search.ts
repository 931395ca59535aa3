/** The part of an address behind `?`, whose values are texts: "12" and "1e3" are a user's search words, no numbers. */

import { stringifySearchWith } from "@tanstack/react-router";

export function parseSearch(text: string): Record<string, unknown> {
  return Object.fromEntries(new URLSearchParams(text));
}

export const stringifySearch = stringifySearchWith(String);

/** The texts of an address under these names, without empty ones. */
export function texts<Name extends string>(
  search: Record<string, unknown>,
  names: readonly Name[],
): { readonly [name in Name]?: string } {
  const given = names.map((name) => [name, search[name]] as const);
  return Object.fromEntries(given.filter(([, value]) => typeof value === "string" && value !== "")) as {
    readonly [name in Name]?: string;
  };
}
