import { useState } from "react";
import { numberOf } from "../../data/select";
import { DataTable } from "../../ui/data-table";
import { Graph, type GraphNode } from "../../ui/graph";
import type { IconName } from "../../ui/icons";
import { compactText, percentText } from "../../ui/text";
import { lagOf, type QueryFacts, splitsOf } from "./facts";

const KINDS: Readonly<Record<string, readonly [label: string, icon: IconName]>> = {
  read_entity: ["Read", "entity"],
  read_rows: ["Read", "entity"],
  read_table: ["Read", "entity"],
  lookup_join: ["Look up", "store"],
  write_entity: ["Write", "store"],
  write_rows: ["Write", "store"],
  write_view: ["Write view", "store"],
  assign_watermark: ["Watermark", "lineage"],
  decode_rows: ["Decode", "entity"],
  encode_rows: ["Encode", "entity"],
  sql_transform: ["SQL", "sql"],
};

/** The plan as a graph, the chosen step beside it, and the rows of conditions and joins. */
export function PlanGraph({ facts }: { readonly facts: QueryFacts }) {
  const [selected, setSelected] = useState<string | null>(null);
  const steps = [...facts.plan].sort((one, other) => Number(one.position) - Number(other.position));
  if (steps.length === 0) return <p className="empty-text">A query that has ended has no plan to show.</p>;
  const splits = splitsOf(facts.splits);
  const output = numberOf(facts.metrics[0]?.output);
  const nodes = steps.map((step): GraphNode => {
    const kind = step.kind ?? "";
    const [kindLabel, icon] = KINDS[kind] ?? [kind.replaceAll("_", " "), "queries"];
    const note = noteOf(kind, step.entity, splits, output);
    return {
      id: step.step ?? "",
      kind: kind.startsWith("read") ? "entity" : kind.startsWith("write") ? "sink" : "query",
      kindLabel,
      icon,
      title: step.entity ?? step.step ?? "",
      ...(note === null ? {} : { note }),
      isWarned: facts.findings.some((finding) => finding.step === step.step),
    };
  });
  const edges = steps.flatMap((step) =>
    (step.inputs ?? "")
      .split(", ")
      .filter(Boolean)
      .map((input) => ({ from: input, to: step.step ?? "" })),
  );
  const chosen = steps.find((step) => step.step === selected);
  return (
    <>
      <div className="graph-frame plan">
        <Graph label="Plan" nodes={nodes} edges={edges} selected={selected} onSelect={setSelected} />
        {chosen === undefined ? null : (
          <aside className="graph-side" aria-label="Step">
            <h3>{chosen.step}</h3>
            <p>{chosen.description}</p>
            {facts.findings
              .filter((finding) => finding.step === chosen.step)
              .map((finding) => (
                <p key={finding.code} className="note warned-text">
                  {finding.finding}
                </p>
              ))}
            {chosen.sql === null ? null : <pre className="viewer-value">{chosen.sql}</pre>}
          </aside>
        )}
      </div>
      <h2>Conditions and joins</h2>
      {facts.conditions.length === 0 ? (
        <p className="empty-text">No rows have reached a condition or a join yet.</p>
      ) : (
        <DataTable
          label="Rows of conditions and joins"
          rows={facts.conditions}
          keyOf={(row) => row.step ?? ""}
          columns={[
            { id: "step", title: "Step", cell: (row) => <code>{row.step}</code> },
            { id: "in", title: "Rows in", isNumber: true, cell: (row) => compactText(numberOf(row.input)) },
            {
              id: "out",
              title: "Rows out",
              isNumber: true,
              cell: (row) => compactText(numberOf(row.output)),
            },
            {
              id: "passed",
              title: "Passed",
              isNumber: true,
              cell: (row) => percentText(numberOf(row.output), numberOf(row.input)),
            },
          ]}
        />
      )}
      {facts.operators.length === 0 ? null : (
        <>
          <h2>State</h2>
          <DataTable
            label="State of operators"
            rows={facts.operators}
            keyOf={(row) => row.operator ?? ""}
            columns={[
              { id: "operator", title: "Operator", cell: (row) => row.operator },
              { id: "rows", title: "Rows", isNumber: true, cell: (row) => compactText(numberOf(row.rows)) },
              {
                id: "bytes",
                title: "Bytes",
                isNumber: true,
                cell: (row) => compactText(numberOf(row.bytes)),
              },
            ]}
          />
        </>
      )}
    </>
  );
}

function noteOf(
  kind: string,
  entity: string | null,
  splits: ReturnType<typeof splitsOf>,
  output: number | null,
): string | null {
  if (kind.startsWith("read") && entity !== null) {
    const lag = lagOf(splits, entity);
    return lag === null ? null : `lag ${compactText(lag)}`;
  }
  return kind.startsWith("write") && output !== null ? `${compactText(output)} rows written` : null;
}
