import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import type { ResultSet } from "../../api/statements";
import { combined, system } from "../../data/select";
import { useAnswer } from "../../data/use-answer";
import { useSession } from "../../session-context";
import { DataTable } from "../../ui/data-table";
import { Dialog } from "../../ui/dialog";
import { Empty } from "../../ui/empty";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";
import { Page, Skeletons } from "../../ui/page";

const STORES = combined({
  stores: {
    columns: {
      name: "name",
      type: "store_type",
      status: "status",
      message: "status_message",
      registry: "schema_registry_name",
      owner: '"owner"',
    },
    from: `FROM ${system("stores")} ORDER BY name`,
  },
  entities: { columns: { store: "store_name", relations: "relations" }, from: `FROM ${system("entities")}` },
});

export function StoreListPage() {
  const { data, failure } = useAnswer(STORES);
  const [isCreating, setCreating] = useState(false);
  const relations = (store: string | null) =>
    (data?.entities ?? [])
      .filter((entity) => entity.store === store)
      .reduce((sum, entity) => sum + Number(entity.relations), 0);
  return (
    <Page
      title="Stores"
      actions={
        <button type="button" className="secondary" onClick={() => setCreating(true)}>
          <Icon name="plus" /> New store
        </button>
      }
    >
      <FailureNote failure={failure} />
      {data === null ? (
        failure === null ? (
          <Skeletons />
        ) : null
      ) : data.stores.length === 0 ? (
        <Empty title="No store yet">
          A store is a connection to a system that you already have, such as a Kafka cluster.{" "}
          <button type="button" className="link calm" onClick={() => setCreating(true)}>
            Write one
          </button>
        </Empty>
      ) : (
        <DataTable
          label="Stores"
          rows={[...data.stores].sort((one, other) => (one.name ?? "").localeCompare(other.name ?? ""))}
          keyOf={(store) => store.name ?? ""}
          columns={[
            {
              id: "name",
              title: "Store",
              cell: (store) => (
                <div className="named">
                  <Link to="/stores/$store" params={{ store: store.name ?? "" }} className="name">
                    {store.name}
                  </Link>
                  {store.message === null ? null : <p className="note danger">{store.message}</p>}
                </div>
              ),
            },
            { id: "type", title: "Type", cell: (store) => store.type },
            {
              id: "status",
              title: "Status",
              cell: (store) => (
                <span className="state">
                  <span className={store.status === "ready" ? "dot done" : "dot failed"} aria-hidden="true" />
                  {store.status}
                </span>
              ),
            },
            {
              id: "relations",
              title: "Relations",
              isNumber: true,
              from: "medium",
              cell: (store) => relations(store.name),
            },
            { id: "registry", title: "Registry", from: "wide", cell: (store) => store.registry ?? "–" },
            { id: "owner", title: "Owner", from: "medium", cell: (store) => store.owner },
          ]}
        />
      )}
      {isCreating ? <NewStore onClose={() => setCreating(false)} /> : null}
    </Page>
  );
}

const TYPES = [
  "KAFKA",
  "KINESIS",
  "POSTGRESQL",
  "S3",
  "ICEBERG",
  "CLICKHOUSE",
  "SNOWFLAKE",
  "ORACLE",
  "DATABRICKS",
] as const;
const template = (result: ResultSet) => result.rows[0]?.[0] ?? "";

/** Puts the server's own template of a store type into the editor: it lists all properties, with what each is for. */
function NewStore({ onClose }: { readonly onClose: () => void }) {
  const { client, currentContext, writeStatement } = useSession();
  const [type, setType] = useState<string>(TYPES[0]);
  const [failure, setFailure] = useState<Failure | null>(null);

  async function write(): Promise<void> {
    try {
      const statement = `GENERATE TEMPLATE FOR CREATE STORE ${type};`;
      const outcome = await client.run({ statement, context: currentContext() });
      if (outcome.kind === "result") writeStatement(template(outcome));
      onClose();
    } catch (error) {
      setFailure(failureOf(error));
    }
  }

  return (
    <Dialog
      title="New store"
      onClose={onClose}
      actions={
        <>
          <button type="button" className="secondary" onClick={onClose}>
            Cancel
          </button>
          <button type="button" className="primary" onClick={write}>
            Write it in the workspace
          </button>
        </>
      }
    >
      <p>
        The workspace gets a CREATE STORE statement with the properties of the type, to be filled in. The
        server tries the connection before it keeps the store.
      </p>
      <label className="field">
        Type
        <select value={type} onChange={(event) => setType(event.target.value)}>
          {TYPES.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <FailureNote failure={failure} />
    </Dialog>
  );
}
