import { useId, useMemo, useState } from "react";
import { StatementDialog } from "../../data/statement-dialog";
import { useAnswer } from "../../data/use-answer";
import { useLanguage } from "../../data/use-language";
import { useRefusal } from "../../data/use-right";
import { useSession } from "../../session-context";
import { ActionButton } from "../../ui/action-button";
import { Loaded } from "../../ui/loaded";
import {
  GRANTS,
  type GrantedObject,
  grantRefusal,
  grantStatement,
  inheritedRoles,
  type MatrixCell,
  matrixOf,
  objectsOf,
  revokeStatement,
} from "./matrix";

interface MatrixProps {
  /** Kind and name of the chosen object; part of the address. */
  readonly object: string;
  readonly onObject: (object: string) => void;
}

/** The roles and the privileges of one object, with GRANT and REVOKE. */
export function GrantsMatrix({ object, onObject }: MatrixProps) {
  const { data, failure } = useAnswer(GRANTS);
  const language = useLanguage();
  const listId = useId();
  const objects = useMemo(
    () => (data === null || language === null ? null : objectsOf(data, language.privileges)),
    [data, language],
  );
  const chosen = objects?.find((each) => each.title === object) ?? null;
  return (
    <>
      <p className="note about">
        The privileges of each role on one object: granted to the role itself, inherited from another role, or
        had as the owner.
      </p>
      <label className="field matrix-object">
        <span>Object</span>
        <input
          type="search"
          list={listId}
          placeholder="Kind and name, such as database shop"
          value={object}
          onChange={(event) => onObject(event.target.value)}
        />
      </label>
      <datalist id={listId}>
        {objects?.map((each) => (
          <option key={each.title} value={each.title} />
        ))}
      </datalist>
      <Loaded data={objects === null ? null : data} failure={failure}>
        {(facts) =>
          chosen === null ? (
            <p className="empty-text">
              {object === ""
                ? "Choose an object."
                : "No object of this kind and name that your role may see."}
            </p>
          ) : (
            <ObjectMatrix
              key={chosen.title}
              object={chosen}
              facts={facts}
              privileges={language?.privileges[chosen.kind] ?? []}
            />
          )
        }
      </Loaded>
    </>
  );
}

interface ObjectMatrixProps {
  readonly object: GrantedObject;
  readonly facts: ReturnType<typeof GRANTS.read>;
  readonly privileges: readonly string[];
}

interface Chosen {
  readonly privilege: string;
  readonly role: string;
  readonly isDirect: boolean;
}

function ObjectMatrix({ object, facts, privileges }: ObjectMatrixProps) {
  const { context } = useSession();
  const [dialog, setDialog] = useState<Chosen | null>(null);
  const rows = useMemo(() => matrixOf(facts, object, privileges), [facts, object, privileges]);
  const isOrganization = object.target === "ORGANIZATION";
  const ofOwner = useRefusal("OWNERSHIP", object.target, !isOrganization);
  const notOwner = isOrganization ? undefined : ofOwner;
  const notManager = useRefusal("MANAGE_GRANTS", "ORGANIZATION");
  const mine = useMemo(
    () => new Set([context.role ?? "", ...inheritedRoles(facts.grants, context.role ?? "")]),
    [facts, context.role],
  );

  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <section className="table-frame" aria-label={`Privileges on ${object.title}`} tabIndex={0}>
      <table className="table matrix">
        <thead>
          <tr>
            <th scope="col">Role</th>
            {privileges.map((privilege) => (
              <th key={privilege} scope="col">
                <code>{privilege}</code>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ role, cells }) => (
            <tr key={role}>
              <th scope="row">{role}</th>
              {privileges.map((privilege, place) => (
                <td key={privilege}>
                  <Cell
                    cell={cells[place]}
                    subject={`${privilege} on ${object.title}`}
                    role={role}
                    refusal={grantRefusal(rows, place, mine, { notOwner, notManager })}
                    onChange={(isDirect) => setDialog({ privilege, role, isDirect })}
                  />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {dialog === null ? null : dialog.isDirect ? (
        <Revoke chosen={dialog} target={object.target} onClose={() => setDialog(null)} />
      ) : (
        <Grant chosen={dialog} target={object.target} onClose={() => setDialog(null)} />
      )}
    </section>
  );
}

interface CellProps {
  readonly cell: MatrixCell | undefined;
  readonly subject: string;
  readonly role: string;
  readonly refusal: string | null;
  readonly onChange: (isDirect: boolean) => void;
}

function Cell({ cell, subject, role, refusal, onChange }: CellProps) {
  const isDirect = cell?.isDirect === true;
  const built = cell?.isBuiltIn === true ? "This grant is built in, and cannot be revoked." : null;
  const words = [
    isDirect ? (cell?.hasOption === true ? "granted, may grant it" : "granted") : "",
    cell?.via === null || cell === undefined ? "" : `from ${cell.via}`,
  ].filter(Boolean);
  return (
    <div className="matrix-cell">
      <span className={words.length === 0 ? "faint" : undefined}>{words.join("; ") || "–"}</span>
      <ActionButton refusal={built ?? refusal} onClick={() => onChange(isDirect)}>
        {isDirect ? "Revoke" : "Grant"}
        <span className="hidden">
          {" "}
          {subject} {isDirect ? "from" : "to"} {role}
        </span>
      </ActionButton>
    </div>
  );
}

interface ChangeProps {
  readonly chosen: Chosen;
  readonly target: string;
  readonly onClose: () => void;
}

function Grant({ chosen: { privilege, role }, target, onClose }: ChangeProps) {
  const [withOption, setWithOption] = useState(false);
  return (
    <StatementDialog
      title={`Grant ${privilege} to ${role}?`}
      statement={grantStatement(privilege, target, role, withOption)}
      confirm="Grant"
      onClose={onClose}
    >
      <label className="check">
        <input
          type="checkbox"
          checked={withOption}
          onChange={(event) => setWithOption(event.target.checked)}
        />
        {role} may grant it to other roles
      </label>
    </StatementDialog>
  );
}

function Revoke({ chosen: { privilege, role }, target, onClose }: ChangeProps) {
  const [cascades, setCascades] = useState(false);
  return (
    <StatementDialog
      title={`Revoke ${privilege} from ${role}?`}
      statement={revokeStatement(privilege, target, role, cascades)}
      confirm="Revoke"
      isDangerous
      onClose={onClose}
    >
      <p>Queries that need the privilege stop.</p>
      <label className="check">
        <input type="checkbox" checked={cascades} onChange={(event) => setCascades(event.target.checked)} />
        Revoke what {role} granted to others too
      </label>
    </StatementDialog>
  );
}
