/** The editor's dialect, from the language that the server publishes. The server's grammar decides what is valid. */

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
    builtin: listed(functions),
  });
}

function listed(words: readonly string[]): string {
  return words.join(" ").toLowerCase();
}
