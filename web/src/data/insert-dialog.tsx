import { useEffect, useId, useMemo, useRef, useState } from "react";
import { useSession } from "../session-context";
import { readPath } from "../sql/identifiers";
import { Loaded } from "../ui/loaded";
import {
  type Field,
  failedColumn,
  firstMode,
  type Input,
  inputOf,
  insertStatement,
  insertTemplate,
  type Mode,
  modesOf,
  problemOf,
  type RowDraft,
  type TargetColumn,
} from "./insert-row";
import { literal, numberOf, selectFrom } from "./select";
import { StatementDialog } from "./statement-dialog";
import { useAnswer } from "./use-answer";
import { useRefusal } from "./use-right";

/** A relation that rows are inserted into. */
export interface InsertTarget {
  /** Full name, quoted. */
  readonly fqn: string;
  readonly type: string;
}

interface InsertDialogProps {
  /** The relations to choose from; at least one. */
  readonly targets: readonly InsertTarget[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** A form for one row of a relation, which shows the INSERT that it runs. */
export function InsertDialog({ targets, onClose, onDone }: InsertDialogProps) {
  const [chosen, setChosen] = useState(targets[0]?.fqn ?? "");
  const target = targets.find(({ fqn }) => fqn === chosen) ?? targets[0];
  const [rows, setRows] = useState<Readonly<Record<string, readonly Field[]>>>({});
  const [failed, setFailed] = useState<{ readonly column: string; readonly message: string } | null>(null);
  const refusal = useRefusal("INSERT", `RELATION ${chosen}`);
  const form = useRef<HTMLDivElement>(null);
  const { columns, failure } = useColumns(chosen);
  const isTable = target?.type === "table";
  const fields =
    rows[chosen] ?? columns?.map((column) => ({ mode: firstMode(column, isTable), text: "" })) ?? [];
  const draft = { path: chosen, columns: columns ?? [], fields };

  useEffect(() => {
    if (failed !== null) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [failed]);

  function change(index: number, field: Field): void {
    setRows({ ...rows, [chosen]: fields.map((each, place) => (place === index ? field : each)) });
    setFailed(null);
  }

  return (
    <StatementDialog
      title={targets.length === 1 ? "Insert a row" : "Insert a row into a relation of the entity"}
      statement={refusal === null ? insertStatement(draft) : null}
      confirm="Insert it"
      onClose={onClose}
      onDone={onDone}
      onFailure={(problem) => {
        const column = problem?.kind === "sql" ? failedColumn(draft, problem) : null;
        const message = [problem?.message, problem?.hint].filter(Boolean).join(". ");
        setFailed(column === null ? null : { column, message });
        return column !== null;
      }}
    >
      <p>
        The row is written once, as the relation declares.{" "}
        {isTable ? "A default is the store's; without one, it is NULL." : "It cannot be taken back."} A
        compute pool encodes it, which takes some seconds if the pool has to start.
      </p>
      {targets.length === 1 ? null : (
        <label className="field">
          Relation
          <select value={chosen} onChange={(event) => setChosen(event.target.value)}>
            {targets.map(({ fqn }) => (
              <option key={fqn}>{fqn}</option>
            ))}
          </select>
        </label>
      )}
      {refusal === null ? null : <p className="warned">{refusal}</p>}
      <Loaded data={columns} failure={failure}>
        {(columns) => (
          <div ref={form}>
            {columns.map((column, index) => (
              <RowField
                key={column.name}
                column={column}
                modes={modesOf(column, isTable)}
                field={fields[index] ?? { mode: "null", text: "" }}
                problem={failed?.column === column.name ? failed.message : null}
                onChange={(field) => change(index, field)}
              />
            ))}
          </div>
        )}
      </Loaded>
      <TemplateLink draft={draft} onClose={onClose} />
    </StatementDialog>
  );
}

/** Condition on the columns of one relation. */
function ofRelation(fqn: string): string {
  const names = readPath(fqn).map(literal);
  return `WHERE ${["database_name", "schema_name", "relation_name"].map((column, place) => `${column} = ${names[place]}`).join(" AND ")}`;
}

function useColumns(fqn: string) {
  const select = useMemo(
    () =>
      selectFrom(
        "relation_columns",
        ["name", "type", "nullable", "is_primary_key", "position"],
        ofRelation(fqn),
      ),
    [fqn],
  );
  const { data, failure } = useAnswer(select);
  const columns = useMemo(
    () =>
      data === null
        ? null
        : [...data]
            .sort((one, other) => (numberOf(one.position) ?? 0) - (numberOf(other.position) ?? 0))
            .map(
              (row): TargetColumn => ({
                name: row.name ?? "",
                type: row.type ?? "",
                isNullable: row.nullable === "true",
                isKey: row.is_primary_key === "true",
              }),
            ),
    [data],
  );
  return { columns, failure };
}

const MODES: Readonly<Record<Mode, string>> = {
  value: "value",
  sql: "SQL",
  null: "NULL",
  default: "default",
};
const PLACEHOLDERS: Readonly<Record<Input, string>> = {
  text: "",
  integer: "42",
  number: "1.5",
  boolean: "",
  date: "",
  timestamp: "",
  instant: "",
  bytes: "00ff",
  sql: "ARRAY[1, 2]",
};

interface RowFieldProps {
  readonly column: TargetColumn;
  readonly modes: readonly Mode[];
  readonly field: Field;
  /** The server's message about the column; null if there is none. */
  readonly problem: string | null;
  readonly onChange: (field: Field) => void;
}

/** A column's name and type, an input that fits them, and what it writes. */
function RowField({ column, modes, field, problem, onChange }: RowFieldProps) {
  const id = useId();
  const isWritten = field.mode === "value" || field.mode === "sql";
  const typed = modes[0] ?? "sql";
  const input = field.mode === "sql" ? "sql" : inputOf(column.type);
  const fault = problem ?? problemOf(column, field);
  const common = {
    id,
    value: isWritten ? field.text : "",
    required: !column.isNullable,
    "aria-invalid": fault === null ? undefined : true,
    "aria-describedby": fault === null ? undefined : `${id}-problem`,
  };
  // Typing into a field that is NULL or left out writes a value.
  const type = (text: string) => onChange({ mode: isWritten ? field.mode : typed, text });
  return (
    <div className="field row-field">
      <label htmlFor={id}>
        <code>{column.name}</code>{" "}
        <span className="faint">
          {column.type}
          {column.isKey ? ", primary key" : ""}
        </span>
      </label>
      <div className="row-value">
        <FieldInput
          input={input}
          common={common}
          placeholder={isWritten ? PLACEHOLDERS[input] : MODES[field.mode]}
          onType={type}
        />
        <select
          aria-label={`What ${column.name} is`}
          value={field.mode}
          onChange={(event) => onChange({ ...field, mode: event.target.value as Mode })}
        >
          {modes.map((mode) => (
            <option key={mode} value={mode}>
              {MODES[mode]}
            </option>
          ))}
        </select>
      </div>
      {fault === null ? null : (
        <p id={`${id}-problem`} className="note danger">
          {fault}
        </p>
      )}
    </div>
  );
}

interface FieldInputProps {
  readonly input: Input;
  readonly common: { readonly id: string; readonly value: string; readonly required: boolean };
  readonly placeholder: string;
  readonly onType: (text: string) => void;
}

const NATIVE: Partial<Record<Input, string>> = {
  date: "date",
  timestamp: "datetime-local",
  instant: "datetime-local",
};

function FieldInput({ input, common, placeholder, onType }: FieldInputProps) {
  if (input === "boolean")
    return (
      <select {...common} onChange={(event) => onType(event.target.value)}>
        <option value="">{placeholder}</option>
        <option>true</option>
        <option>false</option>
      </select>
    );
  if (input === "text")
    return (
      <textarea
        {...common}
        rows={1}
        spellCheck={false}
        placeholder={placeholder}
        onChange={(event) => onType(event.target.value)}
      />
    );
  const native = NATIVE[input];
  return (
    <input
      {...common}
      type={native ?? "text"}
      step={native === "datetime-local" ? "0.001" : undefined}
      inputMode={input === "integer" ? "numeric" : input === "number" ? "decimal" : undefined}
      spellCheck={false}
      autoComplete="off"
      placeholder={placeholder}
      onChange={(event) => onType(event.target.value)}
    />
  );
}

/** Puts the statement into the editor, with NULL for what is not filled in: there, it may have several rows. */
function TemplateLink({ draft, onClose }: { readonly draft: RowDraft; readonly onClose: () => void }) {
  const { writeStatement } = useSession();
  return (
    <p className="note row-note">
      <button
        type="button"
        className="link calm"
        onClick={() => {
          writeStatement(insertStatement(draft) ?? insertTemplate(draft.path, draft.columns));
          onClose();
        }}
      >
        Write the statement in the workspace instead
      </button>
      , for several rows or computed values.
    </p>
  );
}
