import { useCallback, useRef, useState } from "react";
import type { StatementClient } from "../../api/statements";
import type { StatementContext } from "../../api/wire";
import { isExplained, isExplanationSkipped, planOf } from "./explain";
import type { RunStatement } from "./run-state";

interface Environment {
  readonly client: StatementClient;
  readonly currentContext: () => StatementContext;
}

export interface Explained {
  /** True while the server plans a statement. */
  readonly isPlanning: boolean;
  /** The plan that the user looks at, and what it is of. */
  readonly shown: { readonly plan: readonly string[]; readonly statement: RunStatement } | null;
  readonly run: (statements: readonly RunStatement[]) => void;
  /** Ends planning, and closes the plan. Nothing is run. */
  readonly cancel: () => void;
}

/** Runs statements, a single CREATE … AS after its plan was shown. */
export function useExplained(
  { client, currentContext }: Environment,
  start: (statements: readonly RunStatement[]) => void,
): Explained {
  const [isPlanning, setPlanning] = useState(false);
  const [shown, setShown] = useState<Explained["shown"]>(null);
  const planning = useRef<AbortController | null>(null);

  const cancel = useCallback(() => {
    planning.current?.abort();
    planning.current = null;
    setPlanning(false);
    setShown(null);
  }, []);

  async function explain(statement: RunStatement): Promise<void> {
    const controller = new AbortController();
    planning.current = controller;
    const context = currentContext();
    const isCreate = await isExplained(client, statement.text, context, controller.signal);
    if (controller.signal.aborted) return;
    if (!isCreate) return start([statement]);
    setPlanning(true);
    const plan = await planOf(client, statement.text, context, controller.signal);
    if (controller.signal.aborted) return;
    setPlanning(false);
    if (plan === null) start([statement]);
    else setShown({ plan, statement });
  }

  function run(statements: readonly RunStatement[]): void {
    cancel();
    const [first] = statements;
    if (statements.length === 1 && first !== undefined && !isExplanationSkipped()) void explain(first);
    else start(statements);
  }

  return { isPlanning, shown, run, cancel };
}
