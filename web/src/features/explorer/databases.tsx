import { useMemo } from "react";
import { Items } from "../../catalog/items";
import { type RelationItem, readNames, readRelations } from "../../catalog/listing";
import { useListing } from "../../catalog/use-listing";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";
import { Icon } from "../../ui/icons";
import { Branch } from "./branch";
import type { ExplorerProps } from "./explorer";
import { Relation } from "./relation";
import { Section } from "./section";

export function Databases(props: ExplorerProps) {
  const { client, context, version } = props;
  const listing = useListing<string>({
    client,
    context,
    version,
    statement: "LIST DATABASES;",
    read: readNames,
  });
  return (
    <Section title="Databases" count={listing.items?.length ?? null}>
      <Items
        listing={listing}
        empty={
          <>
            Relations live in databases. Add one with <code>CREATE DATABASE</code>.
          </>
        }
        keyOf={(database) => database}
        render={(database) => (
          <Branch label={database} icon={<Icon name="folder" />} startsOpen={database === context.database}>
            {() => <Schemas {...props} database={database} />}
          </Branch>
        )}
      />
    </Section>
  );
}

interface SchemasProps extends ExplorerProps {
  readonly database: string;
}

function Schemas(props: SchemasProps) {
  const { client, context, version, database } = props;
  const listing = useListing<string>({
    client,
    context: { ...context, database },
    version,
    statement: `LIST SCHEMAS IN DATABASE ${quoteIdentifier(database)};`,
    read: readNames,
  });
  return (
    <Items
      listing={listing}
      empty="No schemas."
      keyOf={(schema) => schema}
      render={(schema) => (
        <Branch label={schema} startsOpen={schema === (context.schema ?? "public")}>
          {() => <Relations {...props} schema={schema} />}
        </Branch>
      )}
    />
  );
}

interface RelationsProps extends SchemasProps {
  readonly schema: string;
}

/** Listed in the context of their schema, so that the panel does not depend on the last USE. */
function Relations(props: RelationsProps) {
  const { client, context, version, database, schema } = props;
  const all = useListing<RelationItem>({
    client,
    context: { ...context, database, schema },
    version,
    statement: "LIST RELATIONS;",
    read: readRelations,
  });
  const listing = useMemo(() => {
    const isHere = ({ path }: RelationItem) =>
      (path.at(-2) ?? schema) === schema && (path.at(-3) ?? database) === database;
    return { ...all, items: all.items?.filter(isHere) ?? null };
  }, [all, database, schema]);

  return (
    <Items
      listing={listing}
      empty={
        <>
          No relations yet. Add one with <code>CREATE STREAM</code>.
        </>
      }
      keyOf={(relation) => quotePath(relation.path)}
      render={(relation) => (
        <Relation {...props} relation={relation} path={[database, schema, relation.path.at(-1) ?? ""]} />
      )}
    />
  );
}
