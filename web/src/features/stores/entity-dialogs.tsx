import { useState } from "react";
import type { PropertyFacts } from "../../api/wire";
import { StatementDialog } from "../../data/statement-dialog";
import { createEntityStatement, dropEntityStatement, hasTables } from "./from-entity";
import { PropertyField } from "./property-field";

interface NewEntityProps {
  readonly store: string;
  /** The properties of CREATE ENTITY in the store. */
  readonly properties: readonly PropertyFacts[];
  readonly onClose: () => void;
}

export function NewEntityDialog({ store, properties, onClose }: NewEntityProps) {
  const [name, setName] = useState("");
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const isTable = hasTables(properties);
  return (
    <StatementDialog
      title={`New entity in ${store}`}
      statement={createEntityStatement(store, name, isTable, values)}
      confirm="Create it"
      onClose={onClose}
    >
      <p>
        An entity is what the store calls a topic, a stream or a table. It is created in the store itself.
      </p>
      <label className="field">
        {isTable ? "Name, its parts separated by dots" : "Name"}
        <input spellCheck={false} value={name} onChange={(event) => setName(event.target.value)} />
      </label>
      {properties.map((property) => (
        <PropertyField
          key={property.name}
          property={property}
          value={values[property.name] ?? ""}
          onChange={(value) => setValues({ ...values, [property.name]: value })}
        />
      ))}
    </StatementDialog>
  );
}

interface DropEntityProps {
  readonly store: string;
  readonly path: readonly string[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function DropEntityDialog({ store, path, onClose, onDone }: DropEntityProps) {
  const name = path.at(-1) ?? "";
  const [typed, setTyped] = useState("");
  return (
    <StatementDialog
      title={`Drop the entity ${name}?`}
      statement={typed === name ? dropEntityStatement(store, path) : null}
      confirm="Drop it"
      cancel="Keep it"
      isDangerous
      onClose={onClose}
      onDone={onDone}
    >
      <p>
        The entity and all its records are deleted in the store. Programs that read it fail, and relations
        over it remain without their entity. The server refuses it while a query that is not terminated uses
        it.
      </p>
      <label className="field">
        Type {name} to confirm
        <input spellCheck={false} value={typed} onChange={(event) => setTyped(event.target.value)} />
      </label>
    </StatementDialog>
  );
}
