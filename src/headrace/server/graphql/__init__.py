"""GraphQL at `/graphql`: the system relations as linked objects, statements, and subscriptions over graphql-transport-ws (ADR 70).

Role: the schema is generated from the system relations, so that a new relation is a new type without an edit here. Reads and statements
pass the session layer with the caller's role: privileges, turns, the audit log and limits apply as in REST.
Entry points: `endpoint.GraphQLEndpoint` serves, `schema.schema_of` generates; `objects` has the types of relations, `reading` reads their
rows in batches, `statements` runs statements, `mutations` generates a mutation for each class of them (ADR 85), `subscriptions` pushes,
`limits` refuses documents, `errors` writes errors.
May import: core, sql, statements.system, session.auditing, catalog's vocabulary, `server.ports`, `server.dataplane`, `server.rest`,
strawberry, graphql.
To add a type: a system relation in `statements/system/`. To push another relation: a name in `subscriptions.WATCHED`.
"""
