import { Items } from "../../catalog/items";
import { DATABASES, RELATIONS, SCHEMAS } from "../../catalog/lists";
import { useList } from "../../data/use-list";
import { Icon } from "../../ui/icons";
import { Branch } from "./branch";
import type { ExplorerProps } from "./explorer";
import { Relation } from "./relation";
import { Section } from "./section";

export function Databases(props: ExplorerProps) {
  const { context, isShown } = props;
  const { data, failure } = useList(DATABASES, {}, { isEnabled: isShown });
  return (
    <Section title="Databases" count={data?.length ?? null}>
      <Items
        items={data}
        failure={failure}
        empty={
          <>
            Relations live in databases. Add one with <code>CREATE DATABASE</code>.
          </>
        }
        keyOf={({ name }) => name}
        render={({ name }) => (
          <Branch label={name} icon={<Icon name="folder" />} startsOpen={name === context.database}>
            {() => <Schemas {...props} database={name} />}
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
  const { context, isShown, database } = props;
  const { data, failure } = useList(SCHEMAS, {}, { isEnabled: isShown });
  return (
    <Items
      items={data?.filter((schema) => schema.databaseName === database) ?? null}
      failure={failure}
      empty="No schemas."
      keyOf={({ name }) => name}
      render={({ name }) => (
        <Branch label={name} startsOpen={name === (context.schema ?? "public")}>
          {() => <Relations {...props} schema={name} />}
        </Branch>
      )}
    />
  );
}

interface RelationsProps extends SchemasProps {
  readonly schema: string;
}

function Relations(props: RelationsProps) {
  const { isShown, database, schema } = props;
  const { data, failure } = useList(RELATIONS, {}, { isEnabled: isShown });
  const isHere = (relation: { readonly databaseName: string; readonly schemaName: string }) =>
    relation.databaseName === database && relation.schemaName === schema;
  return (
    <Items
      items={data?.filter(isHere) ?? null}
      failure={failure}
      empty={
        <>
          No relations yet. Add one with <code>CREATE STREAM</code>.
        </>
      }
      keyOf={({ name }) => name}
      render={(relation) => <Relation {...props} relation={relation} />}
    />
  );
}
