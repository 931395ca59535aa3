import { describe, expect, it } from "vitest";
import type { StatementClient } from "../../api/statements";
import { isExplained, planOf } from "./explain";

function answering(run: (statement: string) => unknown): StatementClient {
  return {
    run: async ({ statement }: { statement: string }) => run(statement),
  } as unknown as StatementClient;
}

const { signal } = new AbortController();

describe("an explanation before CREATE", () => {
  it("is for statements that the server reads as those that start a query", async () => {
    const client = {
      outline: async (text: string) => {
        if (text === "away") throw new Error("away");
        return text === "" ? [] : [{ kind: text, query: null }];
      },
    } as unknown as StatementClient;
    const explained = (text: string) => isExplained(client, text, {}, signal);
    expect(await Promise.all(["CreateRelationAs", "ReplaceRelation"].map(explained))).toEqual([true, true]);
    expect(await Promise.all(["SelectStatement", "", "away"].map(explained))).toEqual([false, false, false]);
  });

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
