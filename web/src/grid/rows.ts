/** Source of the grid's rows: a finished result, or the newest rows of a stream. */

import type { Row } from "../api/wire";

export const STREAM_ROWS_MAX = 10_000;
const RATE_WINDOW_MS = 3000;

export interface RowSource {
  readonly length: number;
  /** Number of rows before the first one held. */
  readonly dropped: number;
  at(index: number): Row | undefined;
  toArray(): readonly Row[];
}

export function fixedRows(rows: readonly Row[], dropped = 0): RowSource {
  return { length: rows.length, dropped, at: (index) => rows[index], toArray: () => rows };
}

/** A ring of the newest rows. Readers are notified at most once per animation frame, at any rate of rows. */
export class StreamRows implements RowSource {
  readonly #capacity: number;
  readonly #schedule: (notify: () => void) => void;
  readonly #listeners = new Set<() => void>();
  readonly #arrivals: { readonly at: number; count: number }[] = [];
  readonly #current = new Map<string, Row>();
  #op = 0;
  #key: readonly number[] = [];
  #ring: Row[] = [];
  #firstArrivalAt = 0;
  #start = 0;
  #dropped = 0;
  #received = 0;
  #version = 0;
  #isNotifyPending = false;

  constructor(
    capacity: number = STREAM_ROWS_MAX,
    schedule: (notify: () => void) => void = (notify) => requestAnimationFrame(notify),
  ) {
    this.#capacity = capacity;
    this.#schedule = schedule;
  }

  get length(): number {
    return this.#ring.length;
  }

  get dropped(): number {
    return this.#dropped;
  }

  /** All rows since the stream began, cleared ones included. */
  get received(): number {
    return this.#received;
  }

  /** Changes whenever the rows do: a snapshot for useSyncExternalStore. */
  get version(): number {
    return this.#version;
  }

  at(index: number): Row | undefined {
    return this.#ring[(this.#start + index) % this.#capacity];
  }

  toArray(): readonly Row[] {
    return [...this.#ring.slice(this.#start), ...this.#ring.slice(0, this.#start)];
  }

  /** Also keeps the newest row of each key, from the rows that follow. `op` is the place of the kind of change. */
  keepCurrent(op: number, key: readonly number[]): void {
    this.#op = op;
    this.#key = key;
  }

  /** The newest row of each key that was not deleted, in the order in which the keys came. */
  currentRows(): readonly Row[] {
    return [...this.#current.values()];
  }

  append(row: Row, now: number): void {
    if (this.#key.length > 0) this.#keep(row);
    if (this.#received === 0) this.#firstArrivalAt = now;
    this.#received++;
    this.#countArrival(now);
    if (this.#ring.length < this.#capacity) {
      this.#ring.push(row);
    } else {
      this.#ring[this.#start] = row;
      this.#start = (this.#start + 1) % this.#capacity;
      this.#dropped++;
    }
    this.#announce();
  }

  clear(): void {
    this.#dropped += this.#ring.length;
    this.#ring = [];
    this.#start = 0;
    this.#current.clear();
    this.#announce();
  }

  rowsPerSecond(now: number): number {
    const recent = this.#arrivals.filter((arrival) => now - arrival.at <= RATE_WINDOW_MS);
    const count = recent.reduce((sum, arrival) => sum + arrival.count, 0);
    const seconds = Math.min(RATE_WINDOW_MS, Math.max(1000, now - this.#firstArrivalAt)) / 1000;
    return count / seconds;
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  #keep(row: Row): void {
    const key = JSON.stringify(this.#key.map((place) => row[place]));
    if (row[this.#op] === "delete") this.#current.delete(key);
    else this.#current.set(key, row);
    const [oldest] = this.#current.size > this.#capacity ? this.#current.keys() : [];
    if (oldest !== undefined) this.#current.delete(oldest);
  }

  #countArrival(now: number): void {
    const slot = Math.floor(now / 100) * 100;
    const last = this.#arrivals.at(-1);
    if (last?.at === slot) {
      last.count++;
      return;
    }
    this.#arrivals.push({ at: slot, count: 1 });
    while ((this.#arrivals[0]?.at ?? slot) < slot - RATE_WINDOW_MS) this.#arrivals.shift();
  }

  #announce(): void {
    if (this.#isNotifyPending) return;
    this.#isNotifyPending = true;
    this.#schedule(() => {
      this.#isNotifyPending = false;
      this.#version++;
      for (const listener of this.#listeners) listener();
    });
  }
}
