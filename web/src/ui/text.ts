/** Numbers, sizes and times as short texts. NULL is a dash. */

const COMPACT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const DASH = "–";

export function compactText(value: number | null): string {
  if (value === null) return DASH;
  return Math.abs(value) < 10_000 ? Math.round(value).toLocaleString("en-US") : COMPACT.format(value);
}

export function rateText(perSecond: number | null): string {
  if (perSecond === null) return DASH;
  if (perSecond === 0) return "0/s";
  return perSecond < 10 ? `${perSecond.toFixed(1)}/s` : `${compactText(perSecond)}/s`;
}

const BYTES = ["B", "kB", "MB", "GB", "TB"];

export function bytesText(bytes: number | null): string {
  if (bytes === null) return DASH;
  const power = Math.min(BYTES.length - 1, bytes < 1 ? 0 : Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${BYTES[power]}`;
}

const UNITS: readonly (readonly [number, string])[] = [
  [86_400_000 * 365, "y"],
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
];

/** A span of time in its largest unit. */
export function spanText(milliseconds: number | null): string {
  if (milliseconds === null) return DASH;
  const unit = UNITS.find(([size]) => Math.abs(milliseconds) >= size);
  if (unit === undefined) return `${Math.round(milliseconds)} ms`;
  const value = milliseconds / unit[0];
  return `${value < 10 && unit[1] !== "min" ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)} ${unit[1]}`;
}

export function agoText(moment: number | null, now: number): string {
  if (moment === null) return DASH;
  const span = now - moment;
  return span < 1000 ? "now" : `${spanText(span)} ago`;
}

const LOCAL = new Intl.DateTimeFormat("sv-SE", {
  dateStyle: "short",
  timeStyle: "medium",
});

/** A moment in the browser's time zone, to the second. */
export function timeText(moment: number | null): string {
  return moment === null ? DASH : LOCAL.format(moment);
}

/** An amount, such as slot hours or a price, with two digits; more if it is smaller. */
export function amountText(amount: number | null): string {
  if (amount === null) return DASH;
  const digits = amount === 0 || amount >= 0.1 ? 2 : 4;
  return amount.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A part of a whole. */
export function percentText(part: number | null, whole: number | null): string {
  if (part === null || whole === null || whole === 0) return DASH;
  const percent = (100 * part) / whole;
  return `${percent > 0 && percent < 10 ? percent.toFixed(1) : Math.round(percent)} %`;
}
