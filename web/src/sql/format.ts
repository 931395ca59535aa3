/** Lays out statements: a line for each clause. Only white space changes; what the formatter cannot read stays as it is. */

import { type DialectOptions, formatDialect } from "sql-formatter";
import { splitStatements } from "./split";

type Token = Parameters<NonNullable<DialectOptions["tokenizerOptions"]["postProcess"]>>[0][number];

const NESTED_TYPES = new Set(["ARRAY", "MAP", "STRUCT"]);

const DIALECT: DialectOptions = {
  name: "headrace",
  tokenizerOptions: {
    reservedSelect: ["SELECT", "SELECT DISTINCT"],
    // Without WITH: properties stay on the line of what they belong to.
    reservedClauses: [
      "FROM",
      "WHERE",
      "GROUP BY",
      "HAVING",
      "QUALIFY",
      "WINDOW",
      "ORDER BY",
      "LIMIT",
      "VALUES",
      "INSERT INTO",
    ],
    reservedSetOperations: ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"],
    reservedJoins: [
      "JOIN",
      "INNER JOIN",
      "LEFT JOIN",
      "LEFT OUTER JOIN",
      "RIGHT JOIN",
      "RIGHT OUTER JOIN",
      "FULL JOIN",
      "FULL OUTER JOIN",
      "CROSS JOIN",
    ],
    reservedKeywords: ["AS", "ON", "IN", "WITH", "BY", "OVER"],
    reservedDataTypes: [],
    reservedFunctionNames: [],
    stringTypes: ["''-qq", "$$"],
    identTypes: ['""-qq', "``"],
    extraParens: ["[]"],
    operators: ["->", "||", "=>", "::", "%", "|", "?"],
    postProcess: (tokens) => calls(nestedTypes(tokens)),
  },
  formatOptions: { onelineClauses: ["INSERT INTO", "LIMIT"], alwaysDenseOperators: ["->", "::"] },
};

export interface Change {
  readonly from: number;
  readonly to: number;
  readonly insert: string;
}

/** The changes that lay out the statements of a text. */
export function layoutChanges(text: string): readonly Change[] {
  return splitStatements(text).flatMap(({ from, to, text: statement }) => {
    const insert = laidOut(statement);
    return insert === statement ? [] : [{ from, to, insert }];
  });
}

function laidOut(statement: string): string {
  try {
    const result = formatDialect(statement, { dialect: DIALECT, expressionWidth: 80, tabWidth: 2 });
    return isSame(result, statement) ? result : statement;
  } catch {
    return statement;
  }
}

/** True if two texts differ in white space only. */
function isSame(one: string, other: string): boolean {
  return one.replace(/\s+/g, "") === other.replace(/\s+/g, "");
}

/** A nested type is one token, since its angles are no comparison. */
function nestedTypes(tokens: readonly Token[]): Token[] {
  const result: Token[] = [];
  for (let place = 0; place < tokens.length; place++) {
    const token = tokens[place] as Token;
    const end = NESTED_TYPES.has(token.text.toUpperCase()) ? endOfType(tokens, place + 1) : null;
    if (end === null) {
      result.push(token);
      continue;
    }
    const text = tokens
      .slice(place, end + 1)
      .map((part, index) =>
        index > 0 && needsSpace(part, tokens[place + index - 1]) ? ` ${part.raw}` : part.raw,
      )
      .join("");
    result.push({ ...token, raw: text, text });
    place = end;
  }
  return result;
}

function needsSpace({ raw }: Token, before: Token | undefined): boolean {
  return /^[\w"`]/.test(raw) && before !== undefined && !/^[<(]$/.test(before.raw);
}

/** Place of the `>` that closes a type whose `<` is at a place; null if there is none. */
function endOfType(tokens: readonly Token[], start: number): number | null {
  if (tokens[start]?.raw !== "<") return null;
  let depth = 0;
  for (let place = start; place < tokens.length; place++) {
    const { raw } = tokens[place] as Token;
    if (raw === "<") depth++;
    if (raw === ">") depth--;
    if (depth === 0) return place;
  }
  return null;
}

/** A name directly before a bracket is a function, which stays together with its bracket. */
function calls(tokens: readonly Token[]): Token[] {
  return tokens.map((token, place) => {
    const next = tokens[place + 1];
    const isCall =
      token.type === ("IDENTIFIER" as Token["type"]) && next?.raw === "(" && !next.precedingWhitespace;
    return isCall ? { ...token, type: "RESERVED_FUNCTION_NAME" as Token["type"] } : token;
  });
}
