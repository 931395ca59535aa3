import { useState } from "react";
import { failureOf } from "../../api/failures";
import { Items } from "../../catalog/items";
import { COMPUTE_POOLS } from "../../catalog/lists";
import { isStopping, type PoolItem, poolItem } from "../../catalog/workload";
import { useList } from "../../data/use-list";
import { quoteIdentifier } from "../../sql/identifiers";
import { Dialog } from "../../ui/dialog";
import type { ExplorerProps } from "./explorer";
import { Row } from "./row";
import { Section } from "./section";

/** The pools that queries run in: how big each is, what its process does, and a button that starts or stops it. */
export function ComputePools({ client, context, isShown, onRun, onRefresh }: ExplorerProps) {
  const [asked, setAsked] = useState<PoolItem | null>(null);
  const { data, failure } = useList(COMPUTE_POOLS, {}, { isEnabled: isShown });
  const pools = data?.map(poolItem) ?? null;
  return (
    <Section title="Compute pools" count={pools?.length ?? null}>
      <Items
        items={pools}
        failure={failure}
        empty={
          <>
            Queries run in pools. Add one with <code>CREATE COMPUTE_POOL</code>.
          </>
        }
        keyOf={(pool) => pool.name}
        render={(pool) => <Pool pool={pool} onRun={onRun} onStop={setAsked} />}
      />
      {asked === null ? null : (
        <StopDialog
          pool={asked}
          stop={async () => {
            await client.run({ statement: `STOP COMPUTE_POOL ${quoteIdentifier(asked.name)};`, context });
            onRefresh();
          }}
          onClose={() => setAsked(null)}
        />
      )}
    </Section>
  );
}

interface PoolProps {
  readonly pool: PoolItem;
  readonly onRun: (statement: string) => void;
  readonly onStop: (pool: PoolItem) => void;
}

function Pool({ pool, onRun, onStop }: PoolProps) {
  const start = {
    icon: "play",
    label: `Start compute pool ${pool.name}`,
    onClick: () => onRun(`START COMPUTE_POOL ${quoteIdentifier(pool.name)};`),
  } as const;
  const stop = {
    icon: "stop",
    label: `Stop compute pool ${pool.name}`,
    onClick: () => onStop(pool),
  } as const;
  return (
    <div className="query">
      <Row actions={[isStopping(pool) ? start : stop]}>
        <p className="item leaf" title={`${pool.name}, ${pool.size}, ${pool.state}`}>
          <span className={`dot query-${pool.state}`} aria-hidden="true" />
          <span className="item-name">{pool.name}</span>
          <span className="item-state">{pool.state}</span>
          <span className="badge">{pool.size}</span>
        </p>
      </Row>
      {pool.message === "" ? null : <p className="query-message danger">{pool.message}</p>}
    </div>
  );
}

interface StopDialogProps {
  readonly pool: PoolItem;
  readonly stop: () => Promise<void>;
  readonly onClose: () => void;
}

/** Asks before the queries of a pool come to a halt, everybody's. */
function StopDialog({ pool, stop, onClose }: StopDialogProps) {
  const [isWorking, setWorking] = useState(false);
  const [problem, setProblem] = useState("");

  async function confirm(): Promise<void> {
    setWorking(true);
    setProblem("");
    try {
      await stop();
      onClose();
    } catch (error) {
      setProblem(failureOf(error).message);
      setWorking(false);
    }
  }

  return (
    <Dialog
      title={`Stop the compute pool ${pool.name}?`}
      onClose={onClose}
      actions={
        <>
          <button type="button" className="secondary" onClick={onClose}>
            Keep it running
          </button>
          <button type="button" className="danger" onClick={confirm} disabled={isWorking}>
            {isWorking ? "Stopping…" : "Stop"}
          </button>
        </>
      }
    >
      <p>
        All queries that run in it come to a halt, whoever made them. They keep how far they have come, and go
        on from there when the pool is started again.
      </p>
      {problem === "" ? null : (
        <div className="failure compact" role="alert">
          <p className="failure-message">{problem}</p>
        </div>
      )}
    </Dialog>
  );
}
