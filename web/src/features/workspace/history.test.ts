import { describe, expect, it } from "vitest";
import { pastStatements, withText } from "./history";

const row = (statement: string, outcome: string, sqlstate: string) => ({
  ...{ id: "1", time: "2026-11-28 07:57:15", role_name: "sysadmin", duration_ms: "3" },
  ...{ statement, outcome, sqlstate },
});

describe("the history", () => {
  it("leaves out the reads of open pages, unless all is wanted", () => {
    expect(pastStatements(false).statement).toContain(
      "statement NOT LIKE 'USE %' AND statement NOT LIKE 'SELECT % FROM deltastream.sys.%' AND",
    );
    expect(pastStatements(true).statement).not.toContain("WHERE");
  });

  it("is searched by words of the statement and of the outcome", () => {
    const rows = [row("SELECT * FROM orders", "allowed", "00000"), row("DROP STORE k", "denied", "42501")];
    expect(withText(rows, "ORDERS select")).toEqual([rows[0]]);
    expect(withText(rows, "denied 42501")).toEqual([rows[1]]);
    expect(withText(rows, " ")).toEqual(rows);
  });
});
