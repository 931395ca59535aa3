import { useCallback } from "react";
import type { ResultSet } from "../../api/statements";
import { Items } from "../../catalog/items";
import { readEntities } from "../../catalog/listing";
import { STORES } from "../../catalog/lists";
import { useAnswer } from "../../data/use-answer";
import { useList } from "../../data/use-list";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";
import { Icon } from "../../ui/icons";
import { Branch } from "./branch";
import type { ExplorerProps } from "./explorer";
import { Row } from "./row";
import { Section } from "./section";

export function Stores(props: ExplorerProps) {
  const { data, failure } = useList(STORES, {}, { isEnabled: props.isShown });
  return (
    <Section title="Stores" count={data?.length ?? null}>
      <Items
        items={data}
        failure={failure}
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
                {store.status === "ready" ? null : (
                  <span className={`badge state-${store.status}`}>{store.status}</span>
                )}
                <span className="badge">{store.storeType}</span>
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
  const { store, parent, onRun, onInsert } = props;
  const inside = parent.length === 0 ? "" : ` IN ${quotePath(parent)}`;
  const read = useCallback((result: ResultSet) => readEntities(result, parent), [parent]);
  const statement = `LIST ENTITIES${inside} IN STORE ${quoteIdentifier(store)};`;
  const { data, failure } = useAnswer({ statement, read });
  return (
    <Items
      items={data}
      failure={failure}
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
