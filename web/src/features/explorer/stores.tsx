import { useCallback } from "react";
import type { ResultSet } from "../../api/statements";
import { Items } from "../../catalog/items";
import { type EntityItem, readEntities, readStores, type StoreItem } from "../../catalog/listing";
import { useListing } from "../../catalog/use-listing";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";
import { Icon } from "../../ui/icons";
import { Branch } from "./branch";
import type { ExplorerProps } from "./explorer";
import { Row } from "./row";
import { Section } from "./section";

export function Stores(props: ExplorerProps) {
  const { client, context, version } = props;
  const listing = useListing<StoreItem>({
    client,
    context,
    version,
    statement: "LIST STORES;",
    read: readStores,
  });
  return (
    <Section title="Stores" count={listing.items?.length ?? null}>
      <Items
        listing={listing}
        empty={
          <>
            A store connects a system you already have. Add one with <code>CREATE STORE</code>.
          </>
        }
        keyOf={(store) => store.name}
        render={(store) => (
          <Branch
            label={store.name}
            icon={<Icon name="store" />}
            badge={
              <>
                {store.state === "" || store.state === "ready" ? null : (
                  <span className={`badge state-${store.state}`}>{store.state}</span>
                )}
                <span className="badge">{store.type}</span>
              </>
            }
          >
            {() => <Entities {...props} store={store.name} parent={TOP} />}
          </Branch>
        )}
      />
    </Section>
  );
}

const TOP: readonly string[] = [];

interface EntityProps extends Pick<ExplorerProps, "onRun" | "onInsert"> {
  readonly store: string;
  readonly path: readonly string[];
}

function Entity({ store, path, onRun, onInsert }: EntityProps) {
  const name = path.at(-1) ?? "";
  const print = `PRINT ENTITY ${quotePath(path)} IN STORE ${quoteIdentifier(store)};`;
  return (
    <Row
      actions={[
        { icon: "play", label: `Run PRINT ENTITY ${name}`, onClick: () => onRun(print) },
        { icon: "write", label: `Write PRINT ENTITY ${name}`, onClick: () => onInsert(print) },
      ]}
    >
      <p className="item leaf" title={`entity ${name}`}>
        <Icon name="entity" />
        <span className="item-name">{name}</span>
      </p>
    </Row>
  );
}

interface EntitiesProps extends ExplorerProps {
  readonly store: string;
  readonly parent: readonly string[];
}

function Entities(props: EntitiesProps) {
  const { client, context, version, store, parent, onRun, onInsert } = props;
  const inside = parent.length === 0 ? "" : ` IN ${quotePath(parent)}`;
  const read = useCallback((result: ResultSet) => readEntities(result, parent), [parent]);
  const statement = `LIST ENTITIES${inside} IN STORE ${quoteIdentifier(store)};`;
  const listing = useListing<EntityItem>({ client, context, version, statement, read });
  return (
    <Items
      listing={listing}
      empty="No entities."
      keyOf={(entity) => quotePath(entity.path)}
      render={(entity) =>
        entity.isLeaf ? (
          <Entity store={store} path={entity.path} onRun={onRun} onInsert={onInsert} />
        ) : (
          <Branch label={entity.path.at(-1) ?? ""} icon={<Icon name="folder" />}>
            {() => <Entities {...props} parent={entity.path} />}
          </Branch>
        )
      }
    />
  );
}
