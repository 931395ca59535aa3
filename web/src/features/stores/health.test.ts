import { expect, it } from "vitest";
import { testText } from "./health";

it("reads the time with its offset", () => {
  const now = Date.UTC(2026, 0, 31, 10, 2, 5);
  const tested = { lastTestedAt: "2026-01-31T10:00:00.123456+00:00", lastTestMs: "34" };
  expect(testText(tested, now)).toBe("2 min ago, 34 ms");
  expect(testText({ ...tested, lastTestedAt: "2026-01-31T12:00:00+02:00" }, now)).toBe("2 min ago, 34 ms");
  expect(testText({ lastTestedAt: null, lastTestMs: null }, now)).toBe("–");
});
