import { describe, expect, it } from "vitest";
import { chartRange } from "./chart-range";

describe("the range of a chart", () => {
  it("contains zero, and every value with some room", () => {
    expect([chartRange(5, 10), chartRange(-10, 20), chartRange(-20, -10)]).toEqual([
      [0, 11],
      [-11, 22],
      [-22, 0],
    ]);
  });

  it("is never empty", () => {
    expect([chartRange(null, null), chartRange(0, 0)]).toEqual([
      [0, 1],
      [0, 1],
    ]);
  });
});
