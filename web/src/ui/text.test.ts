import { describe, expect, it } from "vitest";
import { agoText, amountText, bytesText, compactText, percentText, rateText, spanText } from "./text";

describe("short texts", () => {
  it("show counts and rates", () => {
    expect([0, 9999, 12_345, 3_400_000, null].map(compactText)).toEqual(["0", "9,999", "12.3K", "3.4M", "–"]);
    expect([0, 1.25, 120.4, 45_000, null].map(rateText)).toEqual(["0/s", "1.3/s", "120/s", "45K/s", "–"]);
  });

  it("show sizes", () => {
    expect([0, 999, 2_109_584, 3e15, null].map(bytesText)).toEqual([
      "0 B",
      "999 B",
      "2.1 MB",
      "3000 TB",
      "–",
    ]);
  });

  it("show small amounts too", () => {
    expect([0, 1234.5, 0.1, 0.0123, null].map(amountText)).toEqual([
      "0.00",
      "1,234.50",
      "0.10",
      "0.0123",
      "–",
    ]);
  });

  it("show spans and moments", () => {
    expect([12, 1500, 90_000, 7_200_000, 400 * 86_400_000].map(spanText)).toEqual([
      "12 ms",
      "1.5 s",
      "2 min",
      "2 h",
      "1.1 y",
    ]);
    expect(agoText(1000, 1500)).toBe("now");
    expect(agoText(1000, 61_000)).toBe("1 min ago");
    expect(agoText(null, 0)).toBe("–");
  });

  it("show shares, and a dash where there is no whole", () => {
    expect([percentText(1067, 20_100), percentText(5, 5), percentText(1, 0)]).toEqual([
      "5.3 %",
      "100 %",
      "–",
    ]);
  });
});
