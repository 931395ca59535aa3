import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useState } from "react";
import type { ResultSet } from "../../api/statements";
import { type EntityItem, readEntities } from "../../catalog/listing";
import { useAnswer } from "../../data/use-answer";
import { useRefusal } from "../../data/use-right";
import { quoteIdentifier, quotePath, readPath } from "../../sql/identifiers";
import { ActionButton } from "../../ui/action-button";
import { Empty } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Page } from "../../ui/page";
import { SearchBox } from "../../ui/search-box";
import { Tabs } from "../../ui/tabs";
import { NewEntityDialog } from "./entity-dialogs";
import { EntityLayout } from "./entity-layout";
import { MessageBrowser } from "./message-browser";
import { StoreFacts } from "./store-facts";
import { useStoreProperties } from "./use-store-properties";

const route = getRouteApi("/stores/$store");
const TOP: readonly string[] = [];
const TABS = { records: "Records", layout: "Partitions and settings" } as const;

/** The entities of a store, and the records of the chosen one. */
export function StorePage() {
  const { store } = route.useParams();
  const { entity } = route.useSearch();
  const navigate = route.useNavigate();
  const [text, setText] = useState("");
  const path = entity === undefined ? null : readPath(entity);
  const [isCreating, setCreating] = useState(false);
  const [tab, setTab] = useState<keyof typeof TABS>("records");
  const properties = useStoreProperties(store).filter(({ statements }) =>
    statements.includes("CREATE ENTITY"),
  );
  const refusal = useRefusal("USAGE", `STORE ${quoteIdentifier(store)}`);
  return (
    <Page
      title={store}
      above={<Link to="/stores">Stores</Link>}
      isFixed
      facts={<StoreFacts store={store} />}
      actions={
        properties.length === 0 ? undefined : (
          <ActionButton refusal={refusal} onClick={() => setCreating(true)}>
            <Icon name="plus" /> New entity
          </ActionButton>
        )
      }
    >
      <div className="store">
        <aside className="entities" aria-label="Entities">
          <SearchBox label="Find an entity" placeholder="Entity" value={text} onChange={setText} />
          <Entities
            store={store}
            parent={TOP}
            text={text}
            chosen={path === null ? undefined : quotePath(path)}
            onChoose={(next) => void navigate({ search: { entity: next }, replace: true })}
          />
        </aside>
        {path === null ? (
          <Empty title="No entity chosen">Choose one to read its records as they are in the store.</Empty>
        ) : (
          <div className="entity">
            <Tabs label="Entity" tabs={TABS} chosen={tab} onChoose={setTab}>
              {tab === "layout" ? (
                <EntityLayout key={entity} store={store} path={path} />
              ) : (
                <MessageBrowser
                  key={entity}
                  store={store}
                  path={path}
                  onDropped={() => void navigate({ search: {}, replace: true })}
                />
              )}
            </Tabs>
          </div>
        )}
      </div>
      {isCreating ? (
        <NewEntityDialog store={store} properties={properties} onClose={() => setCreating(false)} />
      ) : null}
    </Page>
  );
}

interface EntitiesProps {
  readonly store: string;
  readonly parent: readonly string[];
  readonly text: string;
  readonly chosen: string | undefined;
  readonly onChoose: (entity: string) => void;
}

function Entities({ store, parent, text, chosen, onChoose }: EntitiesProps) {
  const inside = parent.length === 0 ? "" : ` IN ${quotePath(parent)}`;
  const read = useCallback((result: ResultSet) => readEntities(result, parent), [parent]);
  const statement = `LIST ENTITIES${inside} IN STORE ${quoteIdentifier(store)};`;
  const { data, failure } = useAnswer<readonly EntityItem[]>({ statement, read });
  if (data === null)
    return failure === null ? (
      <div className="skeleton" />
    ) : (
      <p className="list-note danger">{failure.message}</p>
    );
  const shown = data.filter(
    ({ path, isLeaf }) => !isLeaf || (path.at(-1) ?? "").toLowerCase().includes(text.toLowerCase()),
  );
  if (shown.length === 0)
    return <p className="list-note">{data.length === 0 ? "No entities." : "Nothing matches."}</p>;
  return (
    <ul>
      {shown.map((entity) => (
        <li key={quotePath(entity.path)}>
          {entity.isLeaf ? (
            <button
              type="button"
              className="item leaf"
              aria-current={quotePath(entity.path) === chosen ? "true" : undefined}
              onClick={() => onChoose(quotePath(entity.path))}
            >
              <Icon name="entity" />
              <span className="item-name">{entity.path.at(-1)}</span>
            </button>
          ) : (
            <Folder store={store} parent={entity.path} text={text} chosen={chosen} onChoose={onChoose} />
          )}
        </li>
      ))}
    </ul>
  );
}

function Folder(props: EntitiesProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" className="item" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span className={isOpen ? "chevron open" : "chevron"}>
          <Icon name="chevron" />
        </span>
        <Icon name="folder" />
        <span className="item-name">{props.parent.at(-1)}</span>
      </button>
      {isOpen ? (
        <div className="branch-content">
          <Entities {...props} />
        </div>
      ) : null}
    </>
  );
}
