/** A line chart over time or numbers, by uPlot. It draws on a canvas, so that its colours are read from the page's variables. */

import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { chartRange } from "./chart-range";

interface ChartSeries {
  readonly label: string;
  /** CSS variable of the colour. */
  readonly colour: "--accent" | "--chart-second";
  readonly values: readonly (number | null)[];
}

interface ChartProps {
  readonly title: string;
  /** Seconds since the epoch. */
  readonly times: readonly number[];
  readonly series: readonly ChartSeries[];
  readonly format: (value: number | null) => string;
  /** Charts with the same name show the same moment under the pointer. */
  readonly syncKey: string;
  /** Text of a place on the axis, if `times` are not seconds since the epoch but any ascending numbers. */
  readonly formatX?: (value: number) => string;
}

const HEIGHT_PX = 148;

export function Chart({ title, times, series, format, syncKey, formatX }: ChartProps) {
  const textOfX = formatX ?? ((seconds: number) => CLOCK.format(seconds * 1000));
  const host = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const theme = useThemeVersion();
  const data = useMemo(
    () => [times, ...series.map((each) => each.values)] as uPlot.AlignedData,
    [times, series],
  );
  const dataNow = useRef(data);
  dataNow.current = data;
  const shape = series.map((each) => `${each.label} ${each.colour}`).join("|");

  // biome-ignore lint/correctness/useExhaustiveDependencies: a chart is drawn anew for another shape or theme only.
  useEffect(() => {
    const element = host.current;
    if (element === null) return;
    const colour = (name: string) => resolved(element, name);
    const axis = {
      stroke: colour("--text-faint"),
      grid: { stroke: colour("--border"), width: 1 },
      ticks: { show: false },
      font: "11px system-ui, sans-serif",
    };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT_PX,
        cursor: { sync: { key: syncKey }, y: false, drag: { x: false, y: false } },
        legend: { show: false },
        scales: {
          x: { time: formatX === undefined },
          y: { range: (_, min, max) => chartRange(min, max) },
        },
        axes: [
          {
            ...axis,
            values: (_, splits) => splits.map((split) => textOfX(split)),
            space: 70,
            size: 26,
          },
          { ...axis, values: (_, splits) => splits.map((split) => format(split)), size: 62, space: 34 },
        ],
        series: [
          {},
          ...series.map((each, index) => ({
            label: each.label,
            stroke: colour(each.colour),
            width: 1.5,
            ...(index === 0 ? { fill: colour("--chart-fill") } : {}),
            points: { show: false },
            spanGaps: false,
          })),
        ],
        hooks: { setCursor: [(self) => setAt(self.cursor.idx ?? null)] },
      },
      dataNow.current,
      element,
    );
    chart.current = plot;
    const observer = new ResizeObserver(() =>
      plot.setSize({ width: element.clientWidth, height: HEIGHT_PX }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
      chart.current = null;
    };
  }, [shape, theme, syncKey]);
  useEffect(() => chart.current?.setData(data), [data]);

  const shown = at ?? times.length - 1;
  const moment = times[shown];
  return (
    <figure className="chart">
      <figcaption>
        <span className="chart-title">{title}</span>
        <span className="chart-values">
          {series.map((each) => (
            <span key={each.label}>
              <span className="swatch" style={{ background: `var(${each.colour})` }} aria-hidden="true" />
              {series.length > 1 ? `${each.label} ` : ""}
              <strong>{format(each.values[shown] ?? null)}</strong>
            </span>
          ))}
          {at === null || moment === undefined ? null : <span className="faint">{textOfX(moment)}</span>}
        </span>
      </figcaption>
      <div ref={host} className="chart-host" aria-hidden="true" />
    </figure>
  );
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** The colour of a variable now: a canvas knows neither variables nor light-dark(). */
function resolved(element: HTMLElement, name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Changes when light and dark change. */
function useThemeVersion(): number {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const media = matchMedia("(prefers-color-scheme: dark)");
    const change = () => setVersion((before) => before + 1);
    media.addEventListener("change", change);
    window.addEventListener("headrace-theme", change);
    return () => {
      media.removeEventListener("change", change);
      window.removeEventListener("headrace-theme", change);
    };
  }, []);
  return version;
}
