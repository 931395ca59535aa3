import { useState } from "react";
import type { PropertyFacts } from "../../api/wire";
import { StatementDialog } from "../../data/statement-dialog";
import { insertStatement } from "./print";
import { PropertyField } from "./property-field";

interface ProduceProps {
  readonly store: string;
  readonly path: readonly string[];
  /** Parts that a record of the store has beside key and value. */
  readonly properties: readonly PropertyFacts[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Writes one record into an entity. */
export function ProduceDialog({ store, path, properties, onClose, onDone }: ProduceProps) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  const [others, setOthers] = useState<Readonly<Record<string, string>>>({});
  return (
    <StatementDialog
      title={`Write a record to ${path.at(-1) ?? ""}`}
      statement={insertStatement(store, path, { key, value, properties: others })}
      confirm="Write the record"
      onClose={onClose}
      onDone={onDone}
    >
      <p>Everybody who reads the entity receives the record. It cannot be taken back.</p>
      <label className="field">
        Value, one JSON value
        <textarea
          rows={5}
          spellCheck={false}
          placeholder='{"user": "u1"}'
          value={value}
          onChange={(event) => setValue(event.target.value)}
        />
      </label>
      <label className="field">
        Key, a text
        <input
          spellCheck={false}
          placeholder="none"
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
      </label>
      {properties.map((property) => (
        <PropertyField
          key={property.name}
          property={property}
          value={others[property.name] ?? ""}
          onChange={(text) => setOthers({ ...others, [property.name]: text })}
        />
      ))}
    </StatementDialog>
  );
}
