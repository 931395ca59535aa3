import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useAnswer } from "../../data/use-answer";
import { Chart } from "../../ui/chart";
import { DataTable } from "../../ui/data-table";
import { Loaded } from "../../ui/loaded";
import { amountText, percentText, spanText } from "../../ui/text";
import {
  POOL_TOTALS,
  type PoolTotal,
  type PoolUse,
  type SlotHistory,
  slotHistory,
  type Use,
  usesOf,
} from "./slot-hours";

/** The server takes a sample each half minute. */
const REPEAT_EVERY_MS = 30_000;

/** Slot hours of each pool in the last day, their cost if there is a price, and of one pool its queries and its slots over time. */
export function PoolUsage() {
  const { data, failure } = useAnswer({ ...POOL_TOTALS, repeatEveryMs: REPEAT_EVERY_MS });
  return (
    <section>
      <h2>Slot hours of the last 24 hours</h2>
      <p className="note about">
        A pool has its slots while its process runs, whether tasks run or not: a slot for an hour is a slot
        hour. Stop a pool, or give it a timeout, to save them.
      </p>
      <Loaded data={data} failure={failure}>
        {(totals) =>
          totals.length === 0 ? (
            <p className="empty-text">
              No pool that your role sees had a process in the last 24 hours, or the first sample is not taken
              yet.
            </p>
          ) : (
            <Totals totals={totals} />
          )
        }
      </Loaded>
    </section>
  );
}

function Totals({ totals }: { readonly totals: readonly PoolTotal[] }) {
  const [chosen, setChosen] = useState(totals[0]?.pool ?? "");
  const pool = totals.some((each) => each.pool === chosen) ? chosen : (totals[0]?.pool ?? "");
  const hasPrice = totals.some(({ cost }) => cost !== null);
  return (
    <>
      <DataTable
        label="Slot hours of the last 24 hours"
        rows={totals}
        keyOf={(row) => row.pool}
        columns={[
          { id: "pool", title: "Pool", cell: (row) => row.pool },
          { id: "ran", title: "Ran for", isNumber: true, cell: (row) => spanText(row.seconds * 1000) },
          {
            id: "hours",
            title: "Slot hours",
            isNumber: true,
            cell: (row) => amountText(row.slotHours),
          },
          {
            id: "used",
            title: "In use",
            isNumber: true,
            from: "medium",
            cell: (row) => percentText(row.usedHours, row.slotHours),
          },
          ...(hasPrice
            ? [
                {
                  id: "cost",
                  title: "Cost",
                  isNumber: true,
                  cell: (row: PoolTotal) => amountText(row.cost),
                },
              ]
            : []),
        ]}
      />
      {hasPrice ? null : (
        <p className="note about row-note">
          With <code>HEADRACE_SLOT_HOUR_PRICE</code>, the server adds what they cost.
        </p>
      )}
      {totals.length > 1 ? (
        <label className="choice about">
          <span>Queries and slots of</span>
          <select value={pool} onChange={(event) => setChosen(event.target.value)}>
            {totals.map((each) => (
              <option key={each.pool}>{each.pool}</option>
            ))}
          </select>
        </label>
      ) : null}
      <Uses pool={pool} />
      <Slots pool={pool} />
    </>
  );
}

function Uses({ pool }: { readonly pool: string }) {
  const select = useMemo(() => usesOf(pool), [pool]);
  const { data, failure } = useAnswer({ ...select, repeatEveryMs: REPEAT_EVERY_MS });
  return (
    <Loaded data={data} failure={failure}>
      {(use) => <UseTable pool={pool} use={use} />}
    </Loaded>
  );
}

interface UseTableProps {
  readonly pool: string;
  readonly use: PoolUse;
}

/** Table of what used the slots of a pool. */
function UseTable({ pool, use }: UseTableProps) {
  const hasPrice = use.uses.some(({ cost }) => cost !== null);
  return (
    <>
      <h3>What used the slots of {pool}</h3>
      <DataTable
        label={`What used the slots of ${pool}`}
        rows={use.uses}
        keyOf={(row) => row.id ?? row.name}
        columns={[
          {
            id: "query",
            title: "Query",
            cell: (row) =>
              row.id === null ? (
                row.name
              ) : (
                <Link to="/queries/$id" params={{ id: row.id }}>
                  {row.name}
                </Link>
              ),
          },
          { id: "hours", title: "Slot hours", isNumber: true, cell: (row) => amountText(row.slotHours) },
          {
            id: "share",
            title: "Share",
            isNumber: true,
            cell: (row) => percentText(row.slotHours, use.slotHours),
          },
          {
            id: "processor",
            title: "Processors",
            isNumber: true,
            from: "medium",
            cell: (row) => spanText(row.processorSeconds === null ? null : row.processorSeconds * 1000),
          },
          ...(hasPrice
            ? [{ id: "cost", title: "Cost", isNumber: true, cell: (row: Use) => amountText(row.cost) }]
            : []),
        ]}
      />
      <p className="note about row-note">
        In full hours. A query has a slot while a task of it runs. Other tasks are those of results that
        somebody reads, and of queries that your role does not see or that are dropped.
      </p>
    </>
  );
}

function Slots({ pool }: { readonly pool: string }) {
  const select = useMemo(() => slotHistory(pool), [pool]);
  const { data, failure } = useAnswer({ ...select, repeatEveryMs: REPEAT_EVERY_MS });
  return (
    <Loaded data={data} failure={failure} skeleton={<div className="skeleton chart-skeleton" />}>
      {(history) => <SlotChart pool={pool} history={history} />}
    </Loaded>
  );
}

interface SlotChartProps {
  readonly pool: string;
  readonly history: SlotHistory;
}

function SlotChart({ pool, history }: SlotChartProps) {
  if (history.times.length < 2) return <p className="empty-text">The chart needs samples of two minutes.</p>;
  const isKnown = history.used.some((used) => used !== null);
  return (
    <div className="charts">
      <Chart
        title={`Slots of ${pool}`}
        times={history.times}
        syncKey="pool"
        format={amountText}
        series={[
          { label: "slots", colour: "--accent", values: history.slots },
          ...(isKnown ? [{ label: "in use", colour: "--chart-second", values: history.used } as const] : []),
        ]}
      />
    </div>
  );
}
