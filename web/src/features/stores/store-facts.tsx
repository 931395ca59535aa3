import { useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import { STORES } from "../../catalog/lists";
import { useList } from "../../data/use-list";
import { useSession } from "../../session-context";
import { quoteIdentifier } from "../../sql/identifiers";
import { FailureNote } from "../../ui/failure-note";
import { useNow } from "../../ui/use-now";
import { testText } from "./health";

const SHOWN_EVERY_MS = 10_000;

/** State of a store, its last test, and a test on request, whose result the server pushes. */
export function StoreFacts({ store: name }: { readonly store: string }) {
  const { client, currentContext } = useSession();
  const { data } = useList(STORES, {});
  const now = useNow(true, SHOWN_EVERY_MS);
  const [isTesting, setTesting] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  const store = data?.find((each) => each.name === name);
  if (store === undefined) return null;

  async function test(): Promise<void> {
    setTesting(true);
    setFailure(null);
    try {
      await client.run({ statement: `TEST STORE ${quoteIdentifier(name)};`, context: currentContext() });
    } catch (error) {
      setFailure(failureOf(error));
    }
    setTesting(false);
  }

  return (
    <>
      <p className="page-facts">
        <span className="state">
          <span className={store.status === "ready" ? "dot done" : "dot failed"} aria-hidden="true" />
          {store.status}
        </span>
        <span>{store.storeType}</span>
        {store.schemaRegistryName === null ? null : (
          <span>
            registry <strong>{store.schemaRegistryName}</strong>
          </span>
        )}
        <span>last test {testText(store, now)}</span>
        <button type="button" className="link calm" disabled={isTesting} onClick={() => void test()}>
          {isTesting ? "Testing" : "Test it now"}
        </button>
      </p>
      {store.statusMessage === null ? null : <p className="note danger">{store.statusMessage}</p>}
      <FailureNote failure={failure} />
    </>
  );
}
