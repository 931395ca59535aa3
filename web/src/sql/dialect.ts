/** The editor's dialect, from the language that the server publishes. The server's grammar decides what is valid. */

import type { Completion } from "@codemirror/autocomplete";
import { SQLDialect, type SQLDialectSpec } from "@codemirror/lang-sql";
import type { Language } from "../api/wire";

const SYNTAX: SQLDialectSpec = {
  caseInsensitiveIdentifiers: true,
  identifierQuotes: '"`',
  operatorChars: "*+-%<>!=&|^/",
};

/** Dialect with the words of standard SQL, for the time until the language is here. */
export const plainDialect = SQLDialect.define(SYNTAX);

export function dialectOf({ words, types, functions }: Language): SQLDialect {
  return SQLDialect.define({
    ...SYNTAX,
    keywords: listed(words),
    types: listed(types),
    builtin: listed(functions.map((each) => each.name)),
  });
}

function listed(words: readonly string[]): string {
  return words.join(" ").toLowerCase();
}

/**
 * Returns how a word is completed: a function with its signature and documentation. Words rank below the names of relations, which a
 * person is more likely to look for.
 */
export function wordCompletion({ functions }: Language): (label: string, type: string) => Completion {
  const byName = new Map(functions.map((each) => [each.name, each]));
  return (label, type) => {
    const known = byName.get(label);
    if (known === undefined) return { label, type, boost: -1 };
    return { label, type: "function", boost: -1, detail: known.signature, info: known.documentation };
  };
}
