import type { StatementContext } from "../../api/wire";
import type { ContextField } from "../../catalog/context";

const FIELDS = [
  ["role", "Role"],
  ["database", "Database"],
  ["schema", "Schema"],
  ["store", "Store"],
  ["computePool", "Compute pool"],
] as const satisfies readonly (readonly [ContextField, string])[];

interface ContextBarProps {
  readonly context: StatementContext;
  /** Called to choose another name. */
  readonly onAsk: (field: ContextField) => void;
}

/** Context of statements. A click lists the choices. */
export function ContextBar({ context, onAsk }: ContextBarProps) {
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
            onClick={() => onAsk(field)}
          >
            <span className="chip-label">{label}</span>
            <span className={value === undefined ? "chip-value unset" : "chip-value"}>{value ?? "none"}</span>
          </button>
        );
      })}
    </nav>
  );
}
