import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type Failure, failureOf } from "../api/failures";
import { StatementDialog } from "../data/statement-dialog";
import { useSession } from "../session-context";
import { spanOf } from "../sql/position";
import { FailureNote } from "../ui/failure-note";
import type { QuerySubject } from "./dialogs";
import { replaceStatement } from "./statements";

interface ReplaceProps {
  readonly query: QuerySubject;
  /** The statement of the present version. */
  readonly sql: string;
  readonly onClose: () => void;
}

/** Replaces the SELECT of a query, after the server has explained what that does to each step. */
export function ReplaceDialog({ query, sql, onClose }: ReplaceProps) {
  const { client, currentContext } = useSession();
  const select = useSelect(sql);
  const [edited, setEdited] = useState<string | null>(null);
  const text = edited ?? select ?? "";
  const [plan, setPlan] = useState<{ readonly text: string; readonly lines: readonly string[] } | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isWorking, setWorking] = useState(false);
  const statement = replaceStatement(query.id, text);
  const isExplained = plan !== null && plan.text === text;

  async function explain(): Promise<void> {
    if (statement === null) return;
    setWorking(true);
    setFailure(null);
    setPlan(null);
    try {
      const outcome = await client.run({ statement: `EXPLAIN ${statement}`, context: currentContext() });
      if (outcome.kind === "result") setPlan({ text, lines: outcome.rows.map(([line]) => line ?? "") });
    } catch (error) {
      setFailure(failureOf(error));
    } finally {
      setWorking(false);
    }
  }

  return (
    <StatementDialog
      title={`Replace the query ${query.name}`}
      statement={isExplained ? statement : null}
      confirm="Replace it"
      showsStatement={false}
      onClose={onClose}
    >
      <p>
        The query keeps its sink, its positions and its state, and continues with the new SELECT. Explain
        first: it shows what happens to each step, and why a change is refused.
      </p>
      <label className="field">
        The whole SELECT, with names that the session finds
        <textarea
          className="code-text"
          rows={9}
          spellCheck={false}
          value={text}
          disabled={select === null}
          onChange={(event) => setEdited(event.target.value)}
        />
      </label>
      <p className="form-actions">
        <button
          type="button"
          className="secondary"
          disabled={isWorking || statement === null}
          onClick={() => void explain()}
        >
          {isWorking ? "Planning…" : "Explain the change"}
        </button>
      </p>
      <FailureNote failure={failure} />
      {isExplained ? (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard must be able to scroll a long plan.
        <pre className="viewer-value plan-text" tabIndex={0}>
          {plan.lines.join("\n")}
        </pre>
      ) : null}
    </StatementDialog>
  );
}

/** The SELECT of a statement, which the server finds in it; the whole text if it has none, null before the answer. */
function useSelect(sql: string): string | null {
  const { client, currentContext } = useSession();
  const { data, isPending } = useQuery({
    queryKey: ["select", sql],
    queryFn: ({ signal }) => client.outline(sql, currentContext(), signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (isPending) return null;
  const query = data?.[0]?.query ?? null;
  if (query === null) return sql;
  const { from, to } = spanOf(sql, query.start, query.end);
  return sql.slice(from, to);
}
