import { describe, expect, it } from "vitest";
import { bundleOf } from "./bundle";
import { queryFacts } from "./facts";

describe("the support bundle", () => {
  it("has every part of the page, empty ones too", () => {
    const facts = queryFacts("q").read({
      ...{ kind: "result", columns: [], isTruncated: false, message: "", context: null },
      rows: [["findings", "no_records", null, null, "partition 1 has no record", "wait"]],
    });
    const bundle = JSON.parse(bundleOf(facts, { version: "0.5.0" }, new Date(0)));
    expect(bundle).toMatchObject({
      ...{ written: "1970-01-01T00:00:00.000Z", server: { version: "0.5.0" }, events: [], versions: [] },
      findings: [{ code: "no_records", finding: "partition 1 has no record" }],
    });
    expect(Object.keys(bundle)).toEqual(
      expect.arrayContaining(["queries", "metrics", "splits", "plan", "savepoints"]),
    );
  });
});
