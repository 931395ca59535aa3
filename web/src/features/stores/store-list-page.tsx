import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { STORES } from "../../catalog/lists";
import { useList } from "../../data/use-list";
import { useRefusal } from "../../data/use-right";
import { ActionButton } from "../../ui/action-button";
import { DataTable } from "../../ui/data-table";
import { Empty } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Page } from "../../ui/page";
import { useNow } from "../../ui/use-now";
import { testText } from "./health";
import { NewStoreDialog } from "./new-store-dialog";

const SHOWN_EVERY_MS = 10_000;

export function StoreListPage() {
  const { data, failure } = useList(STORES, {});
  const refusal = useRefusal("CREATE_STORE", "ORGANIZATION");
  const navigate = useNavigate();
  const now = useNow(true, SHOWN_EVERY_MS);
  const [isCreating, setCreating] = useState(false);
  return (
    <Page
      title="Stores"
      actions={
        <ActionButton refusal={refusal} onClick={() => setCreating(true)}>
          <Icon name="plus" /> New store
        </ActionButton>
      }
    >
      <Loaded data={data} failure={failure}>
        {(stores) =>
          stores.length === 0 ? (
            <Empty title="No store yet">
              A store is a connection to a system that you already have, such as a Kafka cluster.{" "}
              {refusal === null ? (
                <button type="button" className="link calm" onClick={() => setCreating(true)}>
                  Create one
                </button>
              ) : null}
            </Empty>
          ) : (
            <DataTable
              label="Stores"
              rows={[...stores].sort((one, other) => one.name.localeCompare(other.name))}
              keyOf={(store) => store.name}
              columns={[
                {
                  id: "name",
                  title: "Store",
                  cell: (store) => (
                    <div className="named">
                      <Link to="/stores/$store" params={{ store: store.name }} className="name">
                        {store.name}
                      </Link>
                      {store.statusMessage === null ? null : (
                        <p className="note danger">{store.statusMessage}</p>
                      )}
                    </div>
                  ),
                },
                { id: "type", title: "Type", cell: (store) => store.storeType },
                {
                  id: "status",
                  title: "Status",
                  cell: (store) => (
                    <span className="state">
                      <span
                        className={store.status === "ready" ? "dot done" : "dot failed"}
                        aria-hidden="true"
                      />
                      {store.status}
                    </span>
                  ),
                },
                {
                  id: "tested",
                  title: "Last test",
                  from: "medium",
                  cell: (store) => testText(store, now),
                },
                {
                  id: "relations",
                  title: "Relations",
                  isNumber: true,
                  from: "medium",
                  cell: (store) => store.relations.totalCount,
                },
                {
                  id: "registry",
                  title: "Registry",
                  from: "wide",
                  cell: (store) => store.schemaRegistryName ?? "–",
                },
                { id: "owner", title: "Owner", from: "medium", cell: (store) => store.owner },
              ]}
            />
          )
        }
      </Loaded>
      {isCreating ? (
        <NewStoreDialog
          onClose={() => setCreating(false)}
          onCreated={(store) => void navigate({ to: "/stores/$store", params: { store } })}
        />
      ) : null}
    </Page>
  );
}
