import { describe, expect, it } from "vitest";
import type { ResultSet } from "../../api/statements";
import { POOL_TOTALS, slotHistory, usesOf } from "./slot-hours";

const answer = (rows: ResultSet["rows"]) => ({ rows }) as ResultSet;

describe("the usage of pools", () => {
  it("has the hours of each pool, and a cost if there is a price", () => {
    const totals = POOL_TOTALS.read(
      answer([
        ["big", "12.5", "3.125", "3600", "2.5"],
        ["default_pool", "0.5", null, "900.5", null],
      ]),
    );
    expect(totals).toEqual([
      { pool: "big", slotHours: 12.5, usedHours: 2.5, cost: 3.125, seconds: 3600 },
      { pool: "default_pool", slotHours: 0.5, usedHours: null, cost: null, seconds: 900.5 },
    ]);
  });

  it("has no line over the time in which the pool had no process", () => {
    const { times, slots, used } = slotHistory("p").read(
      answer([
        ["2026-01-01 00:00:00.000", "4", "1"],
        ["2026-01-01 00:01:00.000", "4", null],
        ["2026-01-01 02:00:00.000", "8", "8"],
      ]),
    );
    const start = Date.UTC(2026, 0, 1) / 1000;
    expect(times).toEqual([start, start + 60, start + 120, start + 7200]);
    expect(slots).toEqual([4, 4, null, 8]);
    expect(used).toEqual([1, null, null, 8]);
    expect(slotHistory("it's").statement).toContain("pool_name = 'it''s'");
  });

  it("is shared by the queries, other tasks and idle slots", () => {
    const { statement, read } = usesOf("it's");
    expect(statement).toContain("u.pool_name = 'it''s'");
    const sink = '"db"."public"."sold"';
    const { slotHours, uses } = read(
      answer([
        ["queries", "q1", null, sink, "1", "40.5", "0.5"],
        ["queries", "q2", "busy", sink, "3", "90", "1.5"],
        ["pool", "16", "6", "8", null, null, null],
      ]),
    );
    expect(slotHours).toBe(16);
    expect(uses).toEqual([
      { id: "q2", name: "busy", slotHours: 3, processorSeconds: 90, cost: 1.5 },
      { id: "q1", name: "sold", slotHours: 1, processorSeconds: 40.5, cost: 0.5 },
      { id: null, name: "Other tasks", slotHours: 2, processorSeconds: null, cost: 1 },
      { id: null, name: "Idle slots", slotHours: 10, processorSeconds: null, cost: 5 },
    ]);
    const sum = uses.reduce((cost, use) => cost + (use.cost ?? 0), 0);
    expect(sum).toBe(8);
  });

  it("has no other rows than those of queries if a sample of the pool is not there yet", () => {
    const rows = [
      ["queries", "q1", "a", null, "0.5", "1", null],
      ["pool", null, null, null, null, null, null],
    ];
    expect(usesOf("p").read(answer(rows)).uses).toEqual([
      { id: "q1", name: "a", slotHours: 0.5, processorSeconds: 1, cost: null },
    ]);
  });
});
