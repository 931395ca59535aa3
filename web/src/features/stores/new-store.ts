/** The statement of the form for a new store, and the place of its error. */

import type { SqlFailure } from "../../api/failures";
import type { Language, PropertyFacts } from "../../api/wire";
import { literal } from "../../data/select";
import { quoteIdentifier } from "../../sql/identifiers";

const STATEMENT = "CREATE STORE";

export interface StoreDraft {
  readonly name: string;
  readonly type: string;
  /** Texts of the properties; empty ones are left out. */
  readonly values: Readonly<Record<string, string>>;
}

/** The properties of a store of this type, in the order of their declaration: its own, and those of every store. */
export function storeProperties(language: Language, type: string): readonly PropertyFacts[] {
  const all = language.properties.filter(({ statements }) => statements.includes(STATEMENT));
  const own = all.filter((property) => property.storeType === type);
  // Those of TLS are listed for every store, and once more for each type that has them.
  const ofTypes = new Set(all.filter(({ storeType }) => storeType !== "").map(({ name }) => name));
  const shared = all.filter(
    ({ name, storeType, documentation }) =>
      storeType === "" && name !== "type" && !ofTypes.has(name) && documentation !== "accepted and ignored",
  );
  return [...own, ...shared];
}

/** True if the statement may fail without the property: with another one, or with none of several. */
export function isOftenNeeded(property: PropertyFacts): boolean {
  return property.default.includes("needed");
}

/** CREATE STORE, with each property on lines of its own, so that the line of an error names one. */
export function createStatement(draft: StoreDraft): string {
  const properties = lines(draft).map(([, line]) => line);
  return `${STATEMENT} ${quoteIdentifier(draft.name.trim())} WITH (\n${properties.join(",\n")}\n);`;
}

/** The steps of creating a store, in the order in which the server takes them. */
export const STEPS = { name: "Name", properties: "Properties", connection: "Connection" } as const;
export type Step = keyof typeof STEPS;

export interface Place {
  readonly step: Step;
  /** The property that is wrong or missing, if one is. */
  readonly property: string | null;
}

const UNREACHABLE = "57";
/** The error for a missing property names it, since it has no place in the text. */
const MISSING = /needs the property '([^']+)'/;

/** Place at which creating a store failed; null if it is none of the steps, such as a missing privilege. */
export function failedAt(draft: StoreDraft, { sqlState, message, position }: SqlFailure): Place | null {
  if (sqlState.startsWith(UNREACHABLE)) return { step: "connection", property: null };
  const missing = MISSING.exec(message)?.[1];
  if (missing !== undefined) return { step: "properties", property: missing };
  if (position === null) return null;
  if (position.line === 1) return { step: "name", property: null };
  let line = 2;
  for (const [property, text] of lines(draft)) {
    line += text.split("\n").length;
    if (position.line < line) return { step: "properties", property };
  }
  return null;
}

function lines({ type, values }: StoreDraft): readonly (readonly [string, string])[] {
  return Object.entries({ type, ...values })
    .filter(([, text]) => text.trim() !== "")
    .map(([name, text]) => [name, `${literal(name)} = ${literal(text)}`]);
}
