import { describe, expect, it } from "vitest";
import {
  pauseStatement,
  replaceStatement,
  restartStatement,
  rollBackStatement,
  savepointStatement,
  stateRefusal,
  terminateStatement,
} from "./statements";

const ID = "6f3c1f0e-9a5b-4a57-8d0a-0d7f3a1b2c3d";

describe("statements about a query", () => {
  it("write an id bare and anything else as an identifier", () => {
    expect(terminateStatement(ID, "")).toBe(`TERMINATE QUERY ${ID};`);
    expect(restartStatement('q"; DROP STORE s')).toBe('RESTART QUERY "q""; DROP STORE s";');
    expect(rollBackStatement(ID, 2)).toBe(`ALTER QUERY ${ID} ROLLBACK TO VERSION 2;`);
  });

  it("name savepoints, and how long they stay", () => {
    expect(terminateStatement(ID, ' "x" ')).toBe(`TERMINATE QUERY ${ID} WITH SAVEPOINT """x""";`);
    expect(savepointStatement(ID, "before", "30")).toBe(
      `CREATE SAVEPOINT "before" ON QUERY ${ID} WITH ('retention.days' = 30);`,
    );
    expect(savepointStatement(ID, "before", "")).toBe(`CREATE SAVEPOINT "before" ON QUERY ${ID};`);
    expect([savepointStatement(ID, " ", ""), savepointStatement(ID, "a", "1); DROP")]).toEqual([null, null]);
  });

  it("pause and resume all queries of a relation", () => {
    expect([pauseStatement('"a"."b"."c"', false), pauseStatement("s", true)]).toEqual([
      'STOP RELATION "a"."b"."c";',
      "START RELATION s;",
    ]);
    expect(stateRefusal("pause", "terminated")).toContain("restart");
  });

  it("replace the SELECT of a query", () => {
    expect(replaceStatement(ID, " SELECT 1 ;\n")).toBe(`ALTER QUERY ${ID} AS SELECT 1;`);
    expect(replaceStatement(ID, " ; ")).toBeNull();
  });

  it("are refused in states where they do nothing", () => {
    expect(stateRefusal("terminate", "running")).toBeNull();
    expect(stateRefusal("restart", "terminated")).toBeNull();
    expect(stateRefusal("terminate", "terminated")).toContain("ended");
    expect(stateRefusal("replace", "terminated")).toContain("restart");
    expect(stateRefusal("savepoint", "terminate_requested")).toContain("ended");
    expect(stateRefusal("restart", "terminate_requested")).toContain("being ended");
  });
});
