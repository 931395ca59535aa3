import { useState } from "react";
import { StatementDialog } from "../../data/statement-dialog";
import { quotePath, readPath } from "../../sql/identifiers";
import { dropStatement, type LineageNode } from "./lineage";

interface DropDialogProps {
  readonly node: LineageNode;
  /** Objects that depend on it. */
  readonly impact: readonly LineageNode[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Drops a relation, after showing what depends on it. */
export function DropDialog({ node, impact, onClose, onDone }: DropDialogProps) {
  const [typed, setTyped] = useState("");
  const name = readPath(node.name).at(-1) ?? "";
  const cascades = impact.length > 0;
  return (
    <StatementDialog
      title={`Drop ${node.type} ${name}?`}
      statement={typed === name ? dropStatement(node.type, quotePath(readPath(node.name)), cascades) : null}
      confirm={cascades ? `Drop it and ${impact.length} more` : "Drop it"}
      cancel="Keep it"
      isDangerous
      onClose={onClose}
      onDone={onDone}
    >
      {cascades ? (
        <>
          <p>These depend on it, and are terminated or dropped with it:</p>
          <ul className="side-list">
            {impact.map((each) => (
              <li key={each.id}>
                {each.title} <span className="faint">{each.kind === "query" ? "query" : each.type}</span>
              </li>
            ))}
          </ul>
        </>
      ) : (
        <p>Nothing depends on it.</p>
      )}
      <p>A query that writes it ends too. The records in the store stay.</p>
      <label className="field">
        Type {name} to confirm
        <input spellCheck={false} value={typed} onChange={(event) => setTyped(event.target.value)} />
      </label>
    </StatementDialog>
  );
}
