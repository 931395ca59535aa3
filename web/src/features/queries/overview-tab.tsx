import { keepPreviousData } from "@tanstack/react-query";
import { useMemo } from "react";
import { momentOf, numberOf } from "../../data/select";
import { useAnswer } from "../../data/use-answer";
import { Chart } from "../../ui/chart";
import { DataTable } from "../../ui/data-table";
import { Loaded } from "../../ui/loaded";
import { amountText, bytesText, compactText, rateText, spanText, timeText } from "../../ui/text";
import { lagOf, type QueryFacts, splitsOf } from "./facts";
import { type History, historyOf, isFlat, RANGES, type Range } from "./history";

const HISTORY_EVERY_MS = 30_000;

interface OverviewProps {
  readonly id: string;
  readonly facts: QueryFacts;
  readonly isEnded: boolean;
  readonly range: Range;
  readonly onRange: (range: Range) => void;
}

export function OverviewTab({ id, facts, isEnded, range, onRange }: OverviewProps) {
  const select = useMemo(() => historyOf(id, range), [id, range]);
  const { data, failure } = useAnswer({
    ...select,
    placeholder: keepPreviousData,
    ...(isEnded ? {} : { progress: { ids: [id], everyMs: HISTORY_EVERY_MS } }),
  });
  return (
    <>
      <Tiles facts={facts} />
      <div className="section-head">
        <h2>Over time</h2>
        <fieldset className="segments">
          <legend className="hidden">Range of the charts</legend>
          {(Object.keys(RANGES) as Range[]).map((each) => (
            <button key={each} type="button" aria-pressed={each === range} onClick={() => onRange(each)}>
              {RANGES[each].label}
            </button>
          ))}
        </fieldset>
      </div>
      <Loaded data={data} failure={failure} skeleton={<div className="skeleton chart-skeleton" />}>
        {(history) => <Charts history={history} />}
      </Loaded>
      <Splits facts={facts} />
      <Phases facts={facts} />
    </>
  );
}

function Tiles({ facts }: { readonly facts: QueryFacts }) {
  const [metrics] = facts.metrics;
  const lag = lagOf(splitsOf(facts.splits));
  const skipped =
    (numberOf(metrics?.late) ?? 0) + (numberOf(metrics?.bad) ?? 0) + (numberOf(metrics?.timeless) ?? 0);
  const tiles: readonly (readonly [label: string, value: string, note: string])[] = [
    [
      "Rows in",
      rateText(numberOf(metrics?.rate)),
      `${compactText(numberOf(metrics?.input))} since the server started`,
    ],
    ["Rows out", compactText(numberOf(metrics?.output)), "since the server started"],
    ["Lag", compactText(lag), "records that wait to be read"],
    ["Watermark behind", spanText(numberOf(metrics?.watermarkLag)), timeText(momentOf(metrics?.watermark))],
    ["State", compactText(numberOf(metrics?.stateRows)), bytesText(numberOf(metrics?.stateBytes))],
    ["Last batch", spanText(numberOf(metrics?.duration)), `${spanText(numberOf(metrics?.age))} ago`],
    [
      "Not used",
      compactText(metrics === undefined ? null : skipped),
      "rows late, without time or unreadable",
    ],
    [
      "Time in slots",
      spanText(milliseconds(metrics?.slotSeconds)),
      `${spanText(milliseconds(metrics?.processorSeconds))} of processors, since the server started`,
    ],
  ];
  return (
    <dl className="tiles">
      {tiles.map(([label, value, note]) => (
        <div key={label} className="tile">
          <dt>{label}</dt>
          <dd>
            <strong>{value}</strong>
            <span>{note}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function milliseconds(seconds: string | null | undefined): number | null {
  const known = numberOf(seconds);
  return known === null ? null : known * 1000;
}

function Charts({ history }: { readonly history: History }) {
  if (history.times.length < 2)
    return <p className="empty-text">No samples in this range yet. The server takes one each half minute.</p>;
  const { times } = history;
  const one = (label: string, values: History["inputRate"]) =>
    [{ label, colour: "--accent", values }] as const;
  // Charts of what many queries do not have.
  const optional = [
    {
      title: "Watermark behind the clock",
      label: "behind",
      values: history.watermarkLagS,
      format: (value: number | null) => spanText(value === null ? null : value * 1000),
    },
    { title: "Rows in the state", label: "rows", values: history.stateRows, format: compactText },
    { title: "Size of the state", label: "bytes", values: history.stateBytes, format: bytesText },
    { title: "Backlog in the sources", label: "bytes", values: history.backlogBytes, format: bytesText },
  ];
  return (
    <div className="charts">
      <Chart
        title="Rows per second"
        times={times}
        syncKey="query"
        format={(value) => (value === null ? "–" : rateText(value).replace("/s", ""))}
        series={[
          { label: "in", colour: "--accent", values: history.inputRate },
          { label: "out", colour: "--chart-second", values: history.outputRate },
        ]}
      />
      <Chart
        title="Duration of batches"
        times={times}
        syncKey="query"
        format={spanText}
        series={one("duration", history.batchMs)}
      />
      <Chart
        title="Slots and processors in use"
        times={times}
        syncKey="query"
        format={amountText}
        series={[
          { label: "slots", colour: "--accent", values: history.slots },
          { label: "processors", colour: "--chart-second", values: history.processors },
        ]}
      />
      {optional
        .filter(({ values }) => !isFlat(values))
        .map(({ title, label, values, format }) => (
          <Chart
            key={title}
            title={title}
            times={times}
            syncKey="query"
            format={format}
            series={one(label, values)}
          />
        ))}
    </div>
  );
}

function Splits({ facts }: { readonly facts: QueryFacts }) {
  const splits = splitsOf(facts.splits);
  return (
    <>
      <h2>Splits</h2>
      {splits.length === 0 ? (
        <p className="empty-text">The splits that the query reads appear after its first batch.</p>
      ) : (
        <DataTable
          label="Splits"
          rows={splits}
          keyOf={(split) => `${split.entity} ${split.split}`}
          columns={[
            { id: "entity", title: "Entity", cell: (split) => split.entity },
            { id: "split", title: "Split", isNumber: true, cell: (split) => split.split },
            { id: "lag", title: "Lag", isNumber: true, cell: (split) => compactText(split.lag) },
            { id: "time", title: "Newest event time", cell: (split) => timeText(split.eventTime) },
            {
              id: "watermark",
              title: "Watermark",
              cell: (split) =>
                split.holdsWatermark ? <span className="tag warned">holds it back</span> : null,
            },
          ]}
        />
      )}
    </>
  );
}

/** Spark's phases of a batch, in the words of the findings. */
const PHASES: Readonly<Record<string, string>> = {
  latestOffset: "ask the source for its end",
  getBatch: "plan what to read",
  queryPlanning: "plan the query",
  addBatch: "read, compute and write",
  walCommit: "write the checkpoint",
  commitOffsets: "commit the checkpoint",
};

function Phases({ facts }: { readonly facts: QueryFacts }) {
  const phases = facts.phases.flatMap(({ phase, duration }) => {
    const label = PHASES[phase ?? ""];
    const milliseconds = numberOf(duration) ?? 0;
    return label === undefined ? [] : [{ label, milliseconds }];
  });
  const total = Math.max(
    1,
    phases.reduce((sum, phase) => sum + phase.milliseconds, 0),
  );
  if (phases.length === 0) return null;
  return (
    <>
      <h2>Phases of the last batch</h2>
      <dl className="bars">
        {[...phases]
          .sort((one, other) => other.milliseconds - one.milliseconds)
          .map(({ label, milliseconds }) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>
                <span
                  className="bar"
                  style={{ width: `${(100 * milliseconds) / total}%` }}
                  aria-hidden="true"
                />
                <span>{spanText(milliseconds)}</span>
              </dd>
            </div>
          ))}
      </dl>
    </>
  );
}
