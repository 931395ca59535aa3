import { describe, expect, it } from "vitest";
import type { ResultSet } from "../api/statements";
import type { Row } from "../api/wire";
import { isStopping, nameOf, WORKLOAD } from "./workload";

const answer = (...rows: readonly Row[]): ResultSet => ({
  kind: "result",
  columns: [],
  rows,
  isTruncated: false,
  message: "",
  context: null,
});

describe("the workload", () => {
  it("puts ended queries last", () => {
    const query = (id: string, state: string): Row => ["queries", id, null, "", state, state, "", null];
    const { queries } = WORKLOAD.read(
      answer(query("a", "terminated"), query("b", "errored"), query("c", "running")),
    );
    expect(queries.map((item) => item.id)).toEqual(["b", "c", "a"]);
  });

  it("distinguishes a stopped pool from an idle one", () => {
    const { pools } = WORKLOAD.read(
      answer(
        ["pools", "busy", "LARGE", "running", "running", null, null, null],
        ["pools", "idle", "small", "stopped", "running", null, null, null],
        ["pools", "off", "medium", "stopped", "stopped", "it was killed", null, null],
      ),
    );
    expect(pools.map(isStopping)).toEqual([false, false, true]);
    expect(pools[0]).toMatchObject({ name: "busy", size: "large", state: "running", message: "" });
    expect(pools[2]?.message).toBe("it was killed");
  });
});

describe("nameOf", () => {
  it("is the relation that a query without a name writes", () => {
    const names = [
      { id: "q1", name: null, sink: '"shop"."public"."per_minute"' },
      { id: "q2", name: null, sink: '"shop"."public"."My Sink"' },
      { id: "q3", name: "named", sink: '"shop"."public"."a"' },
      { id: "q4", name: null, sink: "" },
    ].map(nameOf);
    expect(names).toEqual(["per_minute", "My Sink", "named", "q4"]);
  });
});
