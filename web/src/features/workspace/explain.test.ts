import { describe, expect, it } from "vitest";
import type { StatementClient } from "../../api/statements";
import { planOf } from "./explain";

function answering(run: (statement: string) => unknown): StatementClient {
  return {
    run: async ({ statement }: { statement: string }) => run(statement),
  } as unknown as StatementClient;
}

const { signal } = new AbortController();

describe("an explanation before CREATE", () => {
  it("has the lines of the plan", async () => {
    const client = answering((statement) => ({ kind: "result", rows: [[statement], [null]] }));
    expect(await planOf(client, "CREATE x", {}, signal)).toEqual(["EXPLAIN CREATE x", ""]);
  });

  it("is none if the server has no plan, whose error the statement itself shows", async () => {
    const client = answering(() => {
      throw new Error("0A000");
    });
    expect(await planOf(client, "CREATE STORE s", {}, signal)).toBeNull();
  });
});
