/** The schema of the server, and its types as the docs of the page show them. */

import {
  buildClientSchema,
  type GraphQLNamedType,
  type GraphQLSchema,
  getIntrospectionQuery,
  getNamedType,
  type IntrospectionQuery,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isObjectType,
  isUnionType,
  OperationTypeNode,
  parse,
} from "graphql";

export const INTROSPECTION = getIntrospectionQuery();

/** The schema of an answer to `INTROSPECTION`; throws what the server answered instead. */
export function readSchema(answer: unknown): GraphQLSchema {
  const { data, errors } = (answer ?? {}) as {
    readonly data?: IntrospectionQuery | null;
    readonly errors?: readonly { readonly message?: string }[];
  };
  if (data === undefined || data === null)
    throw new Error(errors?.[0]?.message ?? "The server sent no schema.");
  return buildClientSchema(data);
}

export interface Member {
  readonly name: string;
  /** Text of the type, such as `[String!]!`, and the name of the type in it. */
  readonly type: string;
  readonly named: string;
  readonly description: string;
  readonly inputs: readonly { readonly name: string; readonly type: string; readonly named: string }[];
}

/** The fields, values or possible types of a type. */
export function membersOf(type: GraphQLNamedType): readonly Member[] {
  if (isObjectType(type) || isInterfaceType(type)) {
    return Object.values(type.getFields()).map((field) => ({
      ...typed(field),
      inputs: field.args.map((input) => typed(input)),
    }));
  }
  if (isInputObjectType(type))
    return Object.values(type.getFields()).map((field) => ({ ...typed(field), inputs: [] }));
  if (isUnionType(type)) return type.getTypes().map((each) => plain(each.name, each.description, each.name));
  if (isEnumType(type)) return type.getValues().map((value) => plain(value.name, value.description, ""));
  return [];
}

function typed(field: {
  readonly name: string;
  readonly type: Parameters<typeof getNamedType>[0];
  readonly description?: string | null | undefined;
}) {
  return {
    name: field.name,
    type: String(field.type),
    named: getNamedType(field.type)?.name ?? "",
    description: field.description ?? "",
  };
}

function plain(name: string, description: string | null | undefined, named: string): Member {
  return { name, type: "", named, description: description ?? "", inputs: [] };
}

/** The types that operations start from. */
export function rootTypes(schema: GraphQLSchema): readonly GraphQLNamedType[] {
  return [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()].flatMap((type) =>
    type === null || type === undefined ? [] : [type],
  );
}

export interface NamedOperation {
  readonly name: string | null;
  readonly isSubscription: boolean;
}

/** The operations of a document; none if it cannot be parsed, which the server then reports. */
export function operationsOf(document: string): readonly NamedOperation[] {
  try {
    return parse(document).definitions.flatMap((definition) =>
      definition.kind === "OperationDefinition"
        ? [
            {
              name: definition.name?.value ?? null,
              isSubscription: definition.operation === OperationTypeNode.SUBSCRIPTION,
            },
          ]
        : [],
    );
  } catch {
    return [];
  }
}
