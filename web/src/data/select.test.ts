import { describe, expect, it } from "vitest";
import type { ResultSet } from "../api/statements";
import type { Row } from "../api/wire";
import { combined, literal, momentOf, numberOf, selectFrom } from "./select";

const answer = (...rows: readonly Row[]): ResultSet => ({
  kind: "result",
  columns: [],
  rows,
  isTruncated: false,
  message: "",
  context: null,
});

describe("selectFrom", () => {
  it("quotes names, and reads rows by them", () => {
    const select = selectFrom("queries", ["id", "owner"], `WHERE id = ${literal("it's")}`);
    expect(select.statement).toBe(`SELECT "id", "owner" FROM deltastream.sys."queries" WHERE id = 'it''s'`);
    expect(select.read(answer(["1", null]))).toEqual([{ id: "1", owner: null }]);
  });
});

describe("combined", () => {
  const both = combined(
    {
      steps: { columns: { step: "step", rows: "rows_total" }, from: "FROM a" },
      events: { columns: { time: '"time"' }, from: "FROM b WHERE x" },
    },
    ["a", "b"],
  );

  it("is one statement whose parts have the same number of columns", () => {
    expect(both.statement).toBe(
      "SELECT 'steps' AS c0, CAST(step AS VARCHAR) AS c1, CAST(rows_total AS VARCHAR) AS c2 FROM a" +
        ` UNION ALL SELECT 'events' AS c0, CAST("time" AS VARCHAR) AS c1, CAST(NULL AS VARCHAR) AS c2 FROM b WHERE x`,
    );
  });

  it("puts each row into its part, and an empty list to a part without rows", () => {
    expect(both.read(answer(["steps", "s", "3"]))).toEqual({ steps: [{ step: "s", rows: "3" }], events: [] });
  });
});

describe("cells", () => {
  it("become numbers and moments, and NULL stays NULL", () => {
    expect([numberOf("12.5"), numberOf(null), numberOf("")]).toEqual([12.5, null, null]);
    expect(momentOf("2026-11-28 07:57:15.798993")).toBe(Date.UTC(2026, 10, 28, 7, 57, 15, 798));
    expect(momentOf("2026-11-28 07:57:15")).toBe(Date.UTC(2026, 10, 28, 7, 57, 15));
    expect([momentOf(null), momentOf("soon")]).toEqual([null, null]);
  });
});
