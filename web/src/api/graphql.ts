/** Operations of GraphQL, as the page GraphQL sends them. */

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
