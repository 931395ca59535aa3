import { type FormEvent, useEffect, useId, useRef, useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import type { Language, PropertyFacts } from "../../api/wire";
import { useLanguage } from "../../data/use-language";
import { useSession } from "../../session-context";
import { Dialog } from "../../ui/dialog";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";
import { Skeletons } from "../../ui/page";
import {
  createStatement,
  failedAt,
  isOftenNeeded,
  type Place,
  STEPS,
  type Step,
  type StoreDraft,
  storeProperties,
} from "./new-store";
import { PropertyField } from "./property-field";

interface NewStoreProps {
  readonly onClose: () => void;
  readonly onCreated: (name: string) => void;
}

/** A form for CREATE STORE, from the properties that the server declares. The server keeps a store only if it answers. */
export function NewStoreDialog({ onClose, onCreated }: NewStoreProps) {
  const language = useLanguage();
  const creation = useCreation(onCreated);
  const formId = useId();
  return (
    <Dialog
      title="New store"
      onClose={onClose}
      actions={
        <>
          <button type="button" className="secondary" onClick={onClose}>
            Cancel
          </button>
          <button type="submit" form={formId} className="primary" disabled={creation.isWorking}>
            {creation.isWorking ? "Testing the connection…" : "Test and create"}
          </button>
        </>
      }
    >
      {language === null ? (
        <Skeletons />
      ) : (
        <StoreForm id={formId} language={language} creation={creation} onClose={onClose} />
      )}
    </Dialog>
  );
}

interface Creation {
  readonly isWorking: boolean;
  readonly failure: Failure | null;
  /** Place of the failure; null if it did not, or at none of the steps. */
  readonly place: Place | null;
  readonly create: (draft: StoreDraft) => Promise<void>;
  /** Forgets the failure, as what caused it is changed. */
  readonly reset: () => void;
}

function useCreation(onCreated: (name: string) => void): Creation {
  const { client, currentContext, refresh } = useSession();
  const [isWorking, setWorking] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [place, setPlace] = useState<Place | null>(null);

  async function create(draft: StoreDraft): Promise<void> {
    setWorking(true);
    setFailure(null);
    setPlace(null);
    try {
      await client.run({ statement: createStatement(draft), context: currentContext() });
      refresh();
      onCreated(draft.name.trim());
    } catch (error) {
      const failure = failureOf(error);
      setFailure(failure);
      setPlace(failure.kind === "sql" ? failedAt(draft, failure) : null);
      setWorking(false);
    }
  }

  return {
    isWorking,
    failure,
    place,
    create,
    reset: () => {
      setFailure(null);
      setPlace(null);
    },
  };
}

interface StoreFormProps {
  readonly id: string;
  readonly language: Language;
  readonly creation: Creation;
  readonly onClose: () => void;
}

function StoreForm({ id, language, creation, onClose }: StoreFormProps) {
  const [draft, setDraft] = useState<StoreDraft>({
    name: "",
    type: language.storeTypes[0] ?? "",
    values: {},
  });
  const form = useRef<HTMLFormElement>(null);
  const { failure, place } = creation;
  const properties = storeProperties(language, draft.type);
  const optional = properties.filter((property) => !isOftenNeeded(property));
  const [isOpen, setOpen] = useState(false);
  const isInOptional = optional.some(({ name }) => name === place?.property);
  const message = failure === null ? null : [failure.message, failure.hint].filter(Boolean).join(" ");

  useEffect(() => {
    if (place !== null) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [place]);

  function change(part: Partial<StoreDraft>): void {
    setDraft({ ...draft, ...part });
    creation.reset();
  }
  /** Typed values stay, for the properties that the other type has too. */
  function changeType(type: string): void {
    const names = new Set(storeProperties(language, type).map(({ name }) => name));
    const kept = Object.entries(draft.values).filter(([name]) => names.has(name));
    change({ type, values: Object.fromEntries(kept) });
  }
  const field = (property: PropertyFacts) => (
    <PropertyField
      key={`${draft.type} ${property.name}`}
      property={property}
      value={draft.values[property.name] ?? ""}
      problem={place?.property === property.name ? message : null}
      onChange={(text) => change({ values: { ...draft.values, [property.name]: text } })}
    />
  );
  // A message of a field stands at the field.
  const isAtField = place?.step === "name" || properties.some(({ name }) => name === place?.property);

  return (
    <form
      id={id}
      ref={form}
      autoComplete="off"
      onSubmit={(event: FormEvent) => {
        event.preventDefault();
        void creation.create(draft);
      }}
    >
      <Steps place={place} isWorking={creation.isWorking} />
      {isAtField ? null : (
        <>
          {place?.step === "connection" ? (
            <p>The properties are complete, but the server cannot use the store. Nothing was saved.</p>
          ) : null}
          <FailureNote failure={failure} />
        </>
      )}
      <div className="field-pair">
        <label className="field">
          Type
          <select value={draft.type} onChange={(event) => changeType(event.target.value)}>
            {language.storeTypes.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <NameField
          name={draft.name}
          problem={place?.step === "name" ? message : null}
          onChange={(name) => change({ name })}
        />
      </div>
      {properties.filter(isOftenNeeded).map(field)}
      <details
        className="more-fields"
        open={isOpen || isInOptional}
        onToggle={(event) => setOpen(event.currentTarget.open)}
      >
        <summary>More properties ({optional.length})</summary>
        {optional.map(field)}
      </details>
      <TemplateLink type={draft.type} onClose={onClose} />
    </form>
  );
}

interface NameFieldProps {
  readonly name: string;
  readonly problem: string | null;
  readonly onChange: (name: string) => void;
}

function NameField({ name, problem, onChange }: NameFieldProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>Name</label>
      <input
        id={id}
        required
        spellCheck={false}
        value={name}
        aria-invalid={problem === null ? undefined : true}
        aria-describedby={problem === null ? undefined : `${id}-problem`}
        onChange={(event) => onChange(event.target.value)}
      />
      {problem === null ? null : (
        <p id={`${id}-problem`} className="note danger">
          {problem}
        </p>
      )}
    </div>
  );
}

/** The steps that the server takes, with the one that failed. */
function Steps({ place, isWorking }: { readonly place: Place | null; readonly isWorking: boolean }) {
  const steps = Object.keys(STEPS) as Step[];
  const failed = place === null ? -1 : steps.indexOf(place.step);
  return (
    <ol className="steps" aria-label="Steps of creating the store">
      {steps.map((step, index) => {
        const state = index === failed ? "failed" : index < failed ? "done" : isWorking ? "working" : "open";
        return (
          <li key={step} data-state={state}>
            {state === "failed" ? <Icon name="warning" /> : state === "done" ? <Icon name="check" /> : null}
            {STEPS[step]}
            {state === "failed" ? <span className="hidden"> failed</span> : null}
          </li>
        );
      })}
    </ol>
  );
}

/** Puts the server's own template of a store type into the editor: it lists all properties, with what each is for. */
function TemplateLink({ type, onClose }: { readonly type: string; readonly onClose: () => void }) {
  const { client, currentContext, writeStatement } = useSession();
  const [failure, setFailure] = useState<Failure | null>(null);

  async function write(): Promise<void> {
    try {
      const statement = `GENERATE TEMPLATE FOR CREATE STORE ${type};`;
      const outcome = await client.run({ statement, context: currentContext() });
      if (outcome.kind === "result") writeStatement(outcome.rows[0]?.[0] ?? "");
      onClose();
    } catch (error) {
      setFailure(failureOf(error));
    }
  }

  return (
    <>
      <p className="note">
        The server tests the connection before it keeps the store. Secrets are stored encrypted and are not
        shown again.{" "}
        <button type="button" className="link calm" onClick={write}>
          Write the statement in the workspace instead
        </button>
      </p>
      <FailureNote failure={failure} />
    </>
  );
}
