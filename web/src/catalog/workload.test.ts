import { describe, expect, it } from "vitest";
import type { PoolRow, QueryRow } from "./lists";
import { isStopping, nameOf, poolItem, queryItems } from "./workload";

const pool = (row: Partial<PoolRow>) =>
  poolItem({
    ...{ name: "p", size: "small", actualState: "running", intendedState: "running", errorMessages: null },
    ...row,
  });

describe("the workload", () => {
  it("puts ended queries last, and the oldest first", () => {
    const query = (id: string, currentState: string, createdAt: string): QueryRow => ({
      ...{ id, name: null, sinkFqn: "", kind: "stream", currentState, intendedState: currentState },
      ...{ computePoolName: "p", owner: "r", createdAt, message: null, restarts: 0, query: "" },
    });
    const queries = queryItems([
      query("a", "terminated", "2026-11-28T08:00:00+00:00"),
      query("b", "errored", "2026-11-28T08:00:02+00:00"),
      query("c", "running", "2026-11-28T08:00:01.5+00:00"),
    ]);
    expect(queries.map((item) => item.id)).toEqual(["c", "b", "a"]);
  });

  it("distinguishes a stopped pool from an idle one", () => {
    const pools = [
      pool({ name: "busy", size: "LARGE" }),
      pool({ name: "idle", actualState: "stopped" }),
      pool({ actualState: "stopped", intendedState: "stopped", errorMessages: "it was killed" }),
    ];
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
