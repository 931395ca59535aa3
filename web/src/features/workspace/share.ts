/** A worksheet in a link: its text and names are in the address's fragment, which browsers send to no server. */

import type { StatementContext } from "../../api/wire";

const PREFIX = "#worksheet=";
/** Browsers and chat programs cut longer addresses. */
const LINK_MAX = 30_000;
/** Names that a link sets. The role is the reader's own. */
const NAMES = ["database", "schema", "store", "computePool"] as const;

export interface SharedWorksheet {
  readonly name: string;
  readonly text: string;
  readonly context: StatementContext;
}

/** The link to a copy of a worksheet; null if it is too long. */
export function linkOf(origin: string, { name, text, context }: SharedWorksheet): string | null {
  const names = Object.fromEntries(NAMES.map((field) => [field, context[field]]));
  const bytes = new TextEncoder().encode(JSON.stringify({ name, text, ...names }));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  const link = `${origin}/sql${PREFIX}${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
  return link.length > LINK_MAX ? null : link;
}

/** The worksheet in the fragment of an address; null if there is none, or none that can be read. */
export function sharedWorksheet(hash: string): SharedWorksheet | null {
  if (!hash.startsWith(PREFIX) || hash.length > LINK_MAX) return null;
  try {
    const binary = atob(hash.slice(PREFIX.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    const sent: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (typeof sent !== "object" || sent === null) return null;
    const fields = sent as Readonly<Record<string, unknown>>;
    if (typeof fields.name !== "string" || typeof fields.text !== "string") return null;
    const names = NAMES.map((field) => [field, fields[field]] as const);
    const context = Object.fromEntries(names.filter(([, name]) => typeof name === "string" && name !== ""));
    return { name: fields.name.slice(0, 200) || "Shared", text: fields.text, context };
  } catch {
    return null;
  }
}
