import { useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import type { ResultSet } from "../../api/statements";
import { useSession } from "../../session-context";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";

/** The value of an expression, computed by a snapshot SELECT without a relation. */
export function TryFunction() {
  const { client, currentContext } = useSession();
  const [text, setText] = useState("UPPER('head') || 'RACE'");
  const [answer, setAnswer] = useState<ResultSet | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);

  async function run(): Promise<void> {
    setFailure(null);
    setAnswer(null);
    try {
      const outcome = await client.run({
        statement: `SELECT ${text.trim().replace(/;$/, "")}`,
        context: currentContext(),
      });
      if (outcome.kind === "result") setAnswer(outcome);
    } catch (error) {
      setFailure(failureOf(error));
    }
  }

  return (
    <>
      <p className="note about">
        The value of an expression of literals and functions, computed as a snapshot is. Functions of users
        run in queries only.
      </p>
      <form
        className="filters"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <label className="choice wide-choice">
          <span>SELECT</span>
          <input spellCheck={false} value={text} onChange={(event) => setText(event.target.value)} />
        </label>
        <button type="submit" className="primary" disabled={text.trim() === ""}>
          <Icon name="play" /> Try it
        </button>
      </form>
      <FailureNote failure={failure} />
      {answer === null ? null : (
        <div role="status">
          <dl className="facts wide-facts">
            {answer.columns.map((column, place) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a column is known by its place alone.
              <div key={place}>
                <dt>
                  {column.name} <span className="faint">{column.type}</span>
                </dt>
                <dd>
                  <code className="wrapped">{answer.rows[0]?.[place] ?? "NULL"}</code>
                </dd>
              </div>
            ))}
          </dl>
        </div>
      )}
    </>
  );
}
