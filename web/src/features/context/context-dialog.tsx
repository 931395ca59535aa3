import { useState } from "react";
import { failureOf } from "../../api/failures";
import type { StatementClient } from "../../api/statements";
import type { StatementContext } from "../../api/wire";
import { type ContextField, statementToUse } from "../../catalog/context";
import { Items } from "../../catalog/items";
import { readNames } from "../../catalog/listing";
import { useAnswer } from "../../data/use-answer";
import { Dialog } from "../../ui/dialog";

const LISTS: Readonly<Record<ContextField, readonly [title: string, statement: string]>> = {
  role: ["Use another role", "LIST ROLES;"],
  database: ["Use another database", "LIST DATABASES;"],
  schema: ["Use another schema", "LIST SCHEMAS;"],
  store: ["Use another store", "LIST STORES;"],
  computePool: ["Use another compute pool", "LIST COMPUTE_POOLS;"],
};

interface ContextDialogProps {
  readonly client: StatementClient;
  readonly context: StatementContext;
  readonly field: ContextField;
  readonly onContext: (context: StatementContext) => void;
  readonly onClose: () => void;
}

/** The names that a field of the context can have; choosing one runs its USE statement. */
export function ContextDialog({ client, context, field, onContext, onClose }: ContextDialogProps) {
  const [title, statement] = LISTS[field];
  const [problem, setProblem] = useState("");
  const { data, failure } = useAnswer({ statement, read: readNames });

  async function choose(name: string): Promise<void> {
    setProblem("");
    try {
      const answer = await client.run({ statement: statementToUse(field, name), context });
      if (answer.context !== null) onContext(answer.context);
      onClose();
    } catch (error) {
      setProblem(failureOf(error).message);
    }
  }

  return (
    <Dialog title={title} onClose={onClose}>
      <Items
        items={data}
        failure={failure}
        empty="Nothing to choose yet."
        keyOf={(name) => name}
        render={(name) => (
          <button
            type="button"
            className="item leaf"
            aria-current={name === context[field] ? "true" : undefined}
            onClick={() => choose(name)}
          >
            <span className="item-name">{name}</span>
            {name === context[field] ? <span className="item-state">in use</span> : null}
          </button>
        )}
      />
      {problem === "" ? null : (
        <div className="failure compact" role="alert">
          <p className="failure-message">{problem}</p>
        </div>
      )}
    </Dialog>
  );
}
