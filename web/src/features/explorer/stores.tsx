import { useCallback } from "react";
import type { ResultSet } from "../../api/statements";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";
import { Icon } from "../../ui/icons";
import { Branch } from "./branch";
import type { ExplorerProps } from "./explorer";
import { type EntityItem, readEntities, readStores, type StoreItem } from "./listing";
import { Items, Section } from "./section";
import { useListing } from "./use-listing";

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

interface EntitiesProps extends ExplorerProps {
  readonly store: string;
  readonly parent: readonly string[];
}

function Entities(props: EntitiesProps) {
  const { client, context, version, store, parent, onInsert } = props;
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
          <button
            type="button"
            className="item leaf"
            title="Insert PRINT ENTITY"
            onClick={() =>
              onInsert(`PRINT ENTITY ${quotePath(entity.path)} IN STORE ${quoteIdentifier(store)};`)
            }
          >
            <Icon name="entity" />
            <span className="item-name">{entity.path.at(-1)}</span>
          </button>
        ) : (
          <Branch label={entity.path.at(-1) ?? ""} icon={<Icon name="folder" />}>
            {() => <Entities {...props} parent={entity.path} />}
          </Branch>
        )
      }
    />
  );
}
