import { describe, expect, it } from "vitest";
import { historyOf, isFlat, rates } from "./history";

describe("rates", () => {
  it("are the growth per second, and unknown where the sum was reset or is missing", () => {
    expect(rates([0, 10, 20, 30, 40], [100, 200, 50, null, 90])).toEqual([null, 10, null, null, null]);
    expect(rates([0, 0], [1, 2])).toEqual([null, null]);
  });
});

describe("the history of a query", () => {
  it("has a column for each chart", () => {
    const { statement, read } = historyOf("q", "6h");
    expect(statement).toContain("CURRENT_TIMESTAMP - INTERVAL '6' HOUR");
    const history = read({
      kind: "result",
      columns: [],
      rows: [
        ["2026-11-28 08:00:00.000", "0", "0", "1500", "3", "10", "200", "0", "1.5", "0.5"],
        ["2026-11-28 08:00:10.000", "50", "5", null, "4", "10", "210", "0", "21.5", "3"],
      ],
      isTruncated: false,
      message: "",
      context: null,
    });
    expect(history.times[1]).toBe(Date.UTC(2026, 10, 28, 8, 0, 10) / 1000);
    expect(history).toMatchObject({
      inputRate: [null, 5],
      outputRate: [null, 0.5],
      watermarkLagS: [1.5, null],
      slots: [null, 2],
      processors: [null, 0.25],
    });
    expect([isFlat(history.backlogBytes), isFlat(history.stateRows)]).toEqual([true, false]);
  });
});
