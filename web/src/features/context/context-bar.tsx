import type { StatementContext } from "../../api/wire";

const FIELDS = [
  ["role", "Role", "USE ROLE"],
  ["database", "Database", "USE DATABASE"],
  ["schema", "Schema", "USE SCHEMA"],
  ["store", "Store", "USE STORE"],
  ["computePool", "Compute pool", "USE COMPUTE_POOL"],
] as const;

/** Where statements run. A click starts the USE statement that changes it. */
export function ContextBar({
  context,
  onChange,
}: {
  readonly context: StatementContext;
  readonly onChange: (statement: string) => void;
}) {
  return (
    <nav className="context" aria-label="Context">
      {FIELDS.map(([field, label, statement]) => {
        const value = context[field];
        if (field === "computePool" && value === undefined) return null;
        return (
          <button
            key={field}
            type="button"
            className="chip"
            title={`Change it with ${statement} …;`}
            data-testid={`context-${field}`}
            onClick={() =>
              onChange(`${statement} ${value === undefined ? "" : `"${value.replaceAll('"', '""')}"`};`)
            }
          >
            <span className="chip-label">{label}</span>
            <span className={value === undefined ? "chip-value unset" : "chip-value"}>{value ?? "none"}</span>
          </button>
        );
      })}
    </nav>
  );
}
