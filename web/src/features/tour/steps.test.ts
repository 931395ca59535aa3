import { describe, expect, it } from "vitest";
import { splitStatements } from "../../sql/split";
import { STEPS } from "./steps";

describe("the tour", () => {
  it("runs one statement a step, with full names: a new user has no database yet", () => {
    for (const { statement } of STEPS) {
      if (statement !== null) expect(splitStatements(statement)).toHaveLength(1);
    }
    const relations = STEPS.flatMap(
      ({ statement }) => statement?.match(/(?:FROM|VIEW|STREAM IF NOT EXISTS) (\S+)/g) ?? [],
    );
    expect(relations.length).toBeGreaterThan(3);
    for (const relation of relations) expect(relation).toMatch(/ tour\.public\.(pageviews|pages);?$/);
  });

  it("names a step by what it does, and each only once", () => {
    expect(new Set(STEPS.map(({ title }) => title)).size).toBe(STEPS.length);
    expect(STEPS.every(({ statement, page }) => statement !== null || page !== null)).toBe(true);
  });
});
