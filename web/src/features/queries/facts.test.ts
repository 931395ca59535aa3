import { describe, expect, it } from "vitest";
import { lagOf, queryFacts, splitsOf } from "./facts";

const split = (entity: string, number: string, lag: string | null, eventTime: string | null) => ({
  entity,
  split: number,
  lag,
  eventTime,
});

describe("the statement for a query", () => {
  it("takes the id as a text, whatever the address contains", () => {
    const { statement } = queryFacts("x' OR '1' = '1");
    expect(statement).toContain("WHERE query_id = 'x'' OR ''1'' = ''1'");
    expect(statement.split("UNION ALL")).toHaveLength(12);
  });
});

describe("splits", () => {
  it("show which one holds the watermark: one without event time before the oldest", () => {
    const holders = splitsOf([
      split("b", "10", "1", "2026-11-28 08:00:00.000"),
      split("b", "2", "2", null),
      split("a", "0", "3", "2026-11-28 08:00:00.000"),
      split("a", "1", null, "2026-11-28 07:00:00.000"),
    ]).map((each) => [each.entity, each.split, each.holdsWatermark]);
    expect(holders).toEqual([
      ["a", "0", false],
      ["a", "1", true],
      ["b", "2", true],
      ["b", "10", false],
    ]);
  });

  it("hold nothing where there is no event time, or nothing to wait for", () => {
    const rows = [
      split("a", "0", "1", null),
      split("a", "1", "1", null),
      split("b", "0", "1", "2026-11-28 08:00:00"),
    ];
    expect(splitsOf(rows).some((each) => each.holdsWatermark)).toBe(false);
  });

  it("have a lag together, which is unknown where none is known", () => {
    const splits = splitsOf([
      split("a", "0", "3", null),
      split("a", "1", null, null),
      split("b", "0", "4", null),
    ]);
    expect([lagOf(splits), lagOf(splits, "a"), lagOf(splits, "c")]).toEqual([7, 3, null]);
  });
});
