import { useId } from "react";
import type { PropertyFacts } from "../../api/wire";

interface PropertyFieldProps {
  readonly property: PropertyFacts;
  readonly value: string;
  /** Fault of the value; null if none is known. */
  readonly problem?: string | null;
  readonly onChange: (value: string) => void;
}

/** True if a statement fails without the property. */
function isNeeded(property: PropertyFacts): boolean {
  return property.default === "needed";
}

/** A field for a property of WITH, from its declaration: a choice, a secret or a text, with what it is for. */
export function PropertyField({ property, value, problem = null, onChange }: PropertyFieldProps) {
  const id = useId();
  const { name, documentation, isSecret, values } = property;
  const common = {
    id,
    value,
    "aria-describedby": problem === null ? `${id}-help` : `${id}-help ${id}-problem`,
    required: isNeeded(property),
    "aria-invalid": problem === null ? undefined : true,
  };
  return (
    <div className="field">
      <label htmlFor={id}>
        <code>{name}</code>
      </label>
      {values.length > 0 ? (
        <select {...common} onChange={(event) => onChange(event.target.value)}>
          <option value="">{emptyText(property)}</option>
          {values.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      ) : name.endsWith("_file") ? (
        <textarea
          {...common}
          rows={2}
          className={isSecret ? "secret-text" : undefined}
          spellCheck={false}
          placeholder={emptyText(property)}
          onChange={(event) => onChange(event.target.value)}
        />
      ) : (
        <input
          {...common}
          type={isSecret ? "password" : "text"}
          autoComplete={isSecret ? "new-password" : "off"}
          spellCheck={false}
          placeholder={emptyText(property)}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
      {problem === null ? null : (
        <p id={`${id}-problem`} className="note danger">
          {problem}
        </p>
      )}
      <p id={`${id}-help`} className="note">
        {plain(documentation)}
      </p>
    </div>
  );
}

function emptyText(property: PropertyFacts): string {
  if (isNeeded(property)) return "";
  return plain(property.default === "" ? "optional" : property.default);
}

const LINK = /\[([^\]]+)\]\([^)]*\)/g;

/** The text of a declaration without Markdown, as a sentence begins. */
function plain(markdown: string): string {
  const text = markdown.replaceAll(LINK, "$1").replaceAll("`", "");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
