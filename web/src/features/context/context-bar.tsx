import { useState } from "react";
import type { StatementClient } from "../../api/statements";
import type { StatementContext } from "../../api/wire";
import type { ContextField } from "../../catalog/context";
import { ContextDialog } from "./context-dialog";

const FIELDS = [
  ["role", "Role"],
  ["database", "Database"],
  ["schema", "Schema"],
  ["store", "Store"],
  ["computePool", "Compute pool"],
] as const satisfies readonly (readonly [ContextField, string])[];

interface ContextBarProps {
  readonly client: StatementClient;
  readonly context: StatementContext;
  readonly onContext: (context: StatementContext) => void;
}

/** Context of statements. A click lists the choices. */
export function ContextBar({ client, context, onContext }: ContextBarProps) {
  const [asked, setAsked] = useState<ContextField | null>(null);
  const fields = FIELDS.filter(([field]) => field !== "computePool" || context[field] !== undefined);
  return (
    <nav className="context" aria-label="Context">
      {fields.map(([field, label]) => {
        const value = context[field];
        return (
          <button
            key={field}
            type="button"
            className="chip"
            title={`${label}: ${value ?? "none"}. Click to choose another`}
            data-testid={`context-${field}`}
            onClick={() => setAsked(field)}
          >
            <span className="chip-label">{label}</span>
            <span className={value === undefined ? "chip-value unset" : "chip-value"}>{value ?? "none"}</span>
          </button>
        );
      })}
      {asked === null ? null : (
        <ContextDialog
          client={client}
          context={context}
          field={asked}
          onContext={onContext}
          onClose={() => setAsked(null)}
        />
      )}
    </nav>
  );
}
