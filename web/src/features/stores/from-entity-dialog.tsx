import { useRef, useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import { StatementDialog } from "../../data/statement-dialog";
import { useSession } from "../../session-context";
import { FailureNote } from "../../ui/failure-note";
import {
  changelogStatement,
  FORMATS,
  type Format,
  type InferredColumn,
  inferStatement,
  type Kind,
  readColumns,
  readDdl,
  relationName,
} from "./from-entity";

interface FromEntityProps {
  readonly store: string;
  readonly path: readonly string[];
  readonly onClose: () => void;
}

interface Inferred {
  readonly columns: readonly InferredColumn[];
  /** Remarks on what another sample could change. */
  readonly remarks: string;
}

/** Creates a relation over an entity: the server infers the columns, and the user may change them. */
export function FromEntityDialog({ store, path, onClose }: FromEntityProps) {
  const { client, context, currentContext } = useSession();
  const [name, setName] = useState(() =>
    [context.database ?? "", context.schema ?? "public", relationName(path.at(-1) ?? "")].join("."),
  );
  const [kind, setKind] = useState<Kind>("STREAM");
  const [format, setFormat] = useState<Format>("JSON");
  const [inferred, setInferred] = useState<Inferred | null>(null);
  const [key, setKey] = useState<readonly string[]>([]);
  const [ddl, setDdl] = useState<string | null>(null);
  const [isWorking, setWorking] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  /** Statement whose answer is still of use. */
  const asked = useRef<string | null>(null);
  /** A statement inferred for other choices would contradict those shown. */
  function choose<T>(set: (value: T) => void, value: T): void {
    set(value);
    setInferred(null);
    setDdl(null);
    asked.current = null;
  }
  const draft = { kind, name, store, path, format };
  const infer = inferStatement(draft);

  function chooseKey(columns: readonly InferredColumn[], next: readonly string[]): void {
    setKey(next);
    setDdl(changelogStatement(draft, columns, next));
  }

  async function run(statement: string): Promise<void> {
    asked.current = statement;
    setWorking(true);
    setFailure(null);
    try {
      const outcome = await client.run({ statement, context: currentContext() });
      if (outcome.kind !== "result" || asked.current !== statement) return;
      if (kind === "STREAM") return setDdl(readDdl(outcome));
      const columns = readColumns(outcome);
      setInferred({ columns, remarks: outcome.message });
      chooseKey(
        columns,
        columns.filter(({ isKey }) => isKey).map((column) => column.name),
      );
    } catch (error) {
      setFailure(failureOf(error));
    } finally {
      setWorking(false);
    }
  }

  return (
    <StatementDialog
      title={`Create a relation from ${path.at(-1) ?? ""}`}
      statement={ddl}
      confirm="Create it"
      showsStatement={false}
      onClose={onClose}
    >
      <p>
        The columns are inferred from the schema of the registry, or from a sample of the records. In a
        stream, each record is an event. In a changelog, each record replaces the row of its primary key.
      </p>
      <label className="field">
        Name, as database.schema.name
        <input spellCheck={false} value={name} onChange={(event) => choose(setName, event.target.value)} />
      </label>
      <div className="field-pair">
        <label className="field">
          Kind of relation
          <select value={kind} onChange={(event) => choose(setKind, event.target.value as Kind)}>
            <option value="STREAM">stream</option>
            <option value="CHANGELOG">changelog</option>
          </select>
        </label>
        <label className="field">
          Format of the values
          <select value={format} onChange={(event) => choose(setFormat, event.target.value as Format)}>
            {FORMATS.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
      </div>
      <p className="form-actions">
        <button
          type="button"
          className="secondary"
          disabled={isWorking || infer === null}
          onClick={() => infer !== null && void run(infer)}
        >
          {isWorking ? "Reading a sample…" : "Infer the columns"}
        </button>
      </p>
      <FailureNote failure={failure} />
      {inferred === null ? null : (
        <PrimaryKey inferred={inferred} chosen={key} onChange={(next) => chooseKey(inferred.columns, next)} />
      )}
      {ddl === null ? null : (
        <label className="field">
          The statement, which you may change
          <textarea
            className="code-text"
            rows={10}
            spellCheck={false}
            value={ddl}
            onChange={(event) => setDdl(event.target.value)}
          />
        </label>
      )}
    </StatementDialog>
  );
}

interface PrimaryKeyProps {
  readonly inferred: Inferred;
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}

/** The columns, of which those of the key are chosen, in the order of the columns. */
function PrimaryKey({ inferred, chosen, onChange }: PrimaryKeyProps) {
  const names = inferred.columns.map((column) => column.name);
  return (
    <fieldset className="checks">
      <legend>Primary key</legend>
      {inferred.columns.map((column) => (
        <label key={column.name} className="check">
          <input
            type="checkbox"
            checked={chosen.includes(column.name)}
            onChange={(event) =>
              onChange(
                names.filter((name) => (name === column.name ? event.target.checked : chosen.includes(name))),
              )
            }
          />{" "}
          {column.name} <span className="faint">{column.type}</span>
        </label>
      ))}
      {inferred.remarks === "" ? null : <p className="note">{inferred.remarks}</p>}
    </fieldset>
  );
}
