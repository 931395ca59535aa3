/** Requests and answers of GraphQL. */

import { broken, type Failure, readSqlFailure } from "./failures";
import { asObject, type StatementContext } from "./wire";

/** The address of an endpoint below /v2, to which the cookie of a session belongs, with the names that the operation runs in. */
export function graphqlPath({ role, database, schema, store, computePool }: StatementContext): string {
  const names = Object.entries({ role, database, schema, store, computePool });
  const given = names.filter((entry): entry is [string, string] => entry[1] !== undefined);
  const search = new URLSearchParams(given).toString();
  return search === "" ? "graphql" : `graphql?${search}`;
}

/** The variables of a text: an object, or nothing for an empty text. Throws SyntaxError for other texts. */
export function readVariables(text: string): Readonly<Record<string, unknown>> | null {
  if (text.trim() === "") return null;
  const variables = asObject(JSON.parse(text));
  if (variables === null) throw new SyntaxError('expected an object, such as {"first": 10}');
  return variables;
}

/** The data of an answer, or the failure of its first error, which has the parts of an error of SQL as extensions. */
export function readData(answer: unknown): { readonly data: unknown; readonly failure: Failure | null } {
  const sent = asObject(answer);
  const [error] = Array.isArray(sent?.errors) ? sent.errors.map(asObject) : [];
  if (error !== undefined) {
    const { sqlState, hint } = asObject(error?.extensions) ?? {};
    const lines = [error?.message, ...(typeof hint === "string" ? [`Hint: ${hint}`] : [])];
    return {
      data: null,
      failure: readSqlFailure(typeof sqlState === "string" ? sqlState : "XX000", lines.join("\n")),
    };
  }
  const data = sent?.data ?? null;
  return { data, failure: data === null ? broken("The answer contains no data.") : null };
}
