import { describe, expect, it } from "vitest";
import { StreamRows } from "./rows";

function streamOf(count: number, capacity: number) {
  const frames: (() => void)[] = [];
  const rows = new StreamRows(capacity, (notify) => frames.push(notify));
  for (let number = 0; number < count; number++) rows.append([String(number)], number * 10);
  return { rows, frames };
}

describe("StreamRows", () => {
  it("keeps the newest rows, in order, and counts those that left", () => {
    const { rows } = streamOf(25, 10);
    expect(rows.toArray().map(([cell]) => cell)).toEqual(
      Array.from({ length: 10 }, (_, index) => String(index + 15)),
    );
    expect(rows.at(0)).toEqual(["15"]);
    expect(rows.at(9)).toEqual(["24"]);
    expect([rows.length, rows.dropped, rows.received]).toEqual([10, 15, 25]);
  });

  it("notifies its readers once per frame, however many rows arrived", () => {
    const { rows, frames } = streamOf(1000, 10);
    let calls = 0;
    rows.subscribe(() => calls++);
    expect(frames.length).toBe(1);
    frames[0]?.();
    expect([calls, rows.version]).toEqual([1, 1]);
    rows.append(["next"], 0);
    expect(frames.length).toBe(2);
  });

  it("numbers rows on from where they were when it is cleared", () => {
    const { rows } = streamOf(25, 10);
    rows.clear();
    expect([rows.length, rows.dropped, rows.received]).toEqual([0, 25, 25]);
    rows.append(["after"], 0);
    expect(rows.at(0)).toEqual(["after"]);
  });

  it("computes the rate of the last seconds only", () => {
    const { rows } = streamOf(400, 10);
    expect(rows.rowsPerSecond(4000)).toBeGreaterThan(90);
    expect(rows.rowsPerSecond(4000)).toBeLessThan(110);
    expect(rows.rowsPerSecond(60_000)).toBe(0);
  });
});

describe("the current rows of a changelog", () => {
  it("are the newest of each key, without those that were deleted, and no more than the capacity", () => {
    const rows = new StreamRows(2, () => {});
    rows.keepCurrent(0, [1]);
    const changes = [
      ["insert", "a", "1"],
      ["insert", "b", "1"],
      ["update", "a", "2"],
      ["delete", "b", "1"],
      ["insert", "c", null],
    ];
    for (const change of changes) rows.append(change, 0);
    expect(rows.currentRows()).toEqual([
      ["update", "a", "2"],
      ["insert", "c", null],
    ]);
    rows.append(["insert", "d", "1"], 0);
    expect(rows.currentRows().map(([, key]) => key)).toEqual(["c", "d"]);
    rows.clear();
    expect(rows.currentRows()).toEqual([]);
  });
});
