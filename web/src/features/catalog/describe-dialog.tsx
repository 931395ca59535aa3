import { useState } from "react";
import { StatementDialog } from "../../data/statement-dialog";
import { describeStatement } from "./relations";

interface DescribeDialogProps {
  readonly path: string;
  readonly description: string | null;
  readonly onClose: () => void;
}

/** The description of a relation, which the catalog, MCP and completion show. An empty one is removed. */
export function DescribeDialog({ path, description, onClose }: DescribeDialogProps) {
  const [text, setText] = useState(description ?? "");
  return (
    <StatementDialog
      title="Describe the relation"
      statement={text.trim() === (description ?? "") ? null : describeStatement(path, text)}
      confirm="Save it"
      onClose={onClose}
    >
      <p>What a row is, where it comes from, and what a reader should know. An empty text removes it.</p>
      <label className="field">
        Description
        <textarea rows={4} value={text} onChange={(event) => setText(event.target.value)} />
      </label>
    </StatementDialog>
  );
}
