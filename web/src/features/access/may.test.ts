import { describe, expect, it } from "vitest";
import { canStatement, readVerdict } from "./may";

const answer = (allowed: string, reason: string) =>
  readVerdict({
    ...{ kind: "result", columns: [], isTruncated: false, message: "", context: null },
    rows: [[allowed, reason]],
  });

describe("may a role do something", () => {
  it("asks the server about any role", () => {
    expect(canStatement('a"b', "SELECT", "RELATION shop.public.orders")).toBe(
      `CAN ROLE "a""b" SELECT ON RELATION shop.public.orders;`,
    );
  });

  it("shows each step with its source, or the one sentence of a refusal", () => {
    expect(answer("true", "USAGE on a (owned by x) → SELECT on b (granted to y)")).toEqual({
      isAllowed: true,
      reasons: ["USAGE on a (owned by x)", "SELECT on b (granted to y)"],
    });
    expect(answer("false", "lacks USAGE → SELECT")).toEqual({
      isAllowed: false,
      reasons: ["lacks USAGE → SELECT"],
    });
  });
});
