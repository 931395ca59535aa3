import { useMemo, useState } from "react";
import type { Column } from "../api/wire";
import type { RowSource } from "../grid/rows";
import { Chart } from "../ui/chart";
import { useNow } from "../ui/use-now";
import { barsOf, lineOf, numericPlaces, timePlace } from "./chart-data";

const RENEWED_EVERY_MS = 500;
const KINDS = { line: "Line", bar: "Bars", number: "Number" } as const;
type Kind = keyof typeof KINDS;
/** Value of the choice of no column. */
const ROW_NUMBER = "";

interface ResultChartProps {
  readonly columns: readonly Column[];
  readonly source: RowSource;
  readonly isLive: boolean;
}

/** The rows shown as a line, as bars or as a number. Live rows are drawn twice a second. */
export function ResultChart({ columns, source, isLive }: ResultChartProps) {
  const numbers = numericPlaces(columns);
  const time = timePlace(columns);
  const [kind, setKind] = useState<Kind>(time === null ? "bar" : "line");
  const [chosenX, setX] = useState<string | null>(null);
  const [chosenY, setY] = useState<number | null>(null);
  const y = chosenY ?? numbers.find((place) => place !== time) ?? null;
  const label = columns.findIndex((column, place) => place !== y && column.isOp !== true);
  const usualX = kind === "bar" ? Math.max(0, label) : (time ?? ROW_NUMBER);
  const x = chosenX === null ? usualX : chosenX === ROW_NUMBER ? ROW_NUMBER : Number(chosenX);
  if (y === null) {
    return (
      <p className="empty-text">A chart needs a column of numbers, and this result has none that is shown.</p>
    );
  }
  return (
    <div className="result-chart">
      <div className="filters">
        <label className="choice">
          <span>Show</span>
          <select
            value={kind}
            onChange={(event) => {
              setKind(event.target.value as Kind);
              setX(null);
            }}
          >
            {Object.entries(KINDS).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label className="choice">
          <span>of</span>
          <select value={y} onChange={(event) => setY(Number(event.target.value))}>
            {numbers.map((place) => (
              <option key={place} value={place}>
                {columns[place]?.name}
              </option>
            ))}
          </select>
        </label>
        {kind === "number" ? null : (
          <label className="choice">
            <span>{kind === "bar" ? "for each" : "over"}</span>
            <select value={String(x)} onChange={(event) => setX(event.target.value)}>
              {kind === "line" ? <option value={ROW_NUMBER}>the row's number</option> : null}
              {columns.map((column, place) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a column is known by its place alone.
                <option key={place} value={place}>
                  {column.name}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      <Drawing
        kind={kind}
        columns={columns}
        source={source}
        isLive={isLive}
        x={x === ROW_NUMBER ? null : Number(x)}
        y={y}
      />
    </div>
  );
}

interface DrawingProps extends ResultChartProps {
  readonly kind: Kind;
  readonly x: number | null;
  readonly y: number;
}

function Drawing({ kind, columns, source, isLive, x, y }: DrawingProps) {
  const now = useNow(isLive, RENEWED_EVERY_MS);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a live source changes with each frame, and is read at each renewal.
  const rows = useMemo(() => source.toArray(), [isLive ? now : source, isLive ? 0 : source.length]);
  const name = columns[y]?.name ?? "";
  if (rows.length === 0) return <p className="empty-text">No rows yet.</p>;
  if (kind === "number") return <Figure name={name} value={rows.at(-1)?.[y] ?? null} />;
  if (kind === "bar") return <Bars name={name} bars={barsOf(rows, x ?? 0, y)} />;
  const line = lineOf(rows, columns, x, y);
  return (
    <Chart
      key={String(line.isTime)}
      title={name}
      times={line.xs}
      series={[{ label: name, colour: "--accent", values: line.ys }]}
      format={(value) => (value === null ? "–" : value.toLocaleString("en-US"))}
      {...(line.isTime ? {} : { formatX: (value: number) => value.toLocaleString("en-US") })}
      syncKey="result"
    />
  );
}

function Figure({ name, value }: { readonly name: string; readonly value: string | null }) {
  return (
    <p className="chart-figure">
      <strong>
        {value === null ? "NULL" : Number(value).toLocaleString("en-US", { maximumFractionDigits: 6 })}
      </strong>
      <span>{name}, of the newest row</span>
    </p>
  );
}

function Bars({ name, bars }: { readonly name: string; readonly bars: ReturnType<typeof barsOf> }) {
  const most = Math.max(...bars.map((bar) => Math.abs(bar.value)), 0) || 1;
  return (
    <table className="chart-bars">
      <caption className="hidden">{name}, the newest value of each label</caption>
      <tbody>
        {bars.map((bar) => (
          <tr key={bar.label}>
            <th scope="row" title={bar.label}>
              {bar.label === "" ? "empty" : bar.label}
            </th>
            <td>
              <span
                className={bar.value < 0 ? "bar negative" : "bar"}
                style={{ width: `${(Math.abs(bar.value) / most) * 100}%` }}
                aria-hidden="true"
              />
              <span>{bar.value.toLocaleString("en-US")}</span>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
