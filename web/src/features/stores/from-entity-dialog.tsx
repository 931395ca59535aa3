import { useRef, useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import { StatementDialog } from "../../data/statement-dialog";
import { useSession } from "../../session-context";
import { FailureNote } from "../../ui/failure-note";
import { FORMATS, type Format, generateStatement, readDdl, relationName } from "./from-entity";

interface FromEntityProps {
  readonly store: string;
  readonly path: readonly string[];
  readonly onClose: () => void;
}

/** Creates a stream over an entity: the server infers the columns, and the user may change them. */
export function FromEntityDialog({ store, path, onClose }: FromEntityProps) {
  const { client, context, currentContext } = useSession();
  const [name, setName] = useState(() =>
    [context.database ?? "", context.schema ?? "public", relationName(path.at(-1) ?? "")].join("."),
  );
  const [format, setFormat] = useState<Format>("JSON");
  const [ddl, setDdl] = useState<string | null>(null);
  const [isWorking, setWorking] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  /** Statement whose answer is still of use. */
  const asked = useRef<string | null>(null);
  /** A statement inferred for other choices would contradict those shown. */
  function choose<T>(set: (value: T) => void, value: T): void {
    set(value);
    setDdl(null);
    asked.current = null;
  }
  const generate = generateStatement({ name, store, path, format });

  async function infer(): Promise<void> {
    if (generate === null) return;
    asked.current = generate;
    setWorking(true);
    setFailure(null);
    try {
      const outcome = await client.run({ statement: generate, context: currentContext() });
      if (outcome.kind === "result" && asked.current === generate) setDdl(readDdl(outcome));
    } catch (error) {
      setFailure(failureOf(error));
    } finally {
      setWorking(false);
    }
  }

  return (
    <StatementDialog
      title={`Create a stream from ${path.at(-1) ?? ""}`}
      statement={ddl}
      confirm="Create it"
      showsStatement={false}
      onClose={onClose}
    >
      <p>
        The columns are inferred from the schema of the registry, or from a sample of the records. For a
        changelog, change the statement into CREATE CHANGELOG with a PRIMARY KEY.
      </p>
      <label className="field">
        Name, as database.schema.name
        <input spellCheck={false} value={name} onChange={(event) => choose(setName, event.target.value)} />
      </label>
      <label className="field">
        Format of the values
        <select value={format} onChange={(event) => choose(setFormat, event.target.value as Format)}>
          {FORMATS.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </label>
      <p className="form-actions">
        <button
          type="button"
          className="secondary"
          disabled={isWorking || generate === null}
          onClick={() => void infer()}
        >
          {isWorking ? "Reading a sample…" : "Infer the columns"}
        </button>
      </p>
      <FailureNote failure={failure} />
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
