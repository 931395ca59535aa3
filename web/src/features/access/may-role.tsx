import { useId, useMemo, useState } from "react";
import { useAnswer } from "../../data/use-answer";
import { useLanguage } from "../../data/use-language";
import { useSession } from "../../session-context";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { Skeletons } from "../../ui/page";
import { GRANTS, objectsOf } from "./matrix";
import { canStatement, readVerdict } from "./may";

/** Question whether a role may use a privilege on an object; the answer is the chain of privileges that it has or lacks. */
export function MayRole() {
  const { context } = useSession();
  const { data, failure } = useAnswer(GRANTS);
  const language = useLanguage();
  const listId = useId();
  const [role, setRole] = useState(context.role ?? "");
  const [object, setObject] = useState("");
  const [chosen, setPrivilege] = useState("");
  const objects = useMemo(
    () => (data === null || language === null ? null : objectsOf(data, language.privileges)),
    [data, language],
  );
  if (objects === null || data === null)
    return failure === null ? <Skeletons /> : <FailureNote failure={failure} />;
  const target = objects.find((each) => each.title === object);
  const privileges = target === undefined ? [] : (language?.privileges[target.kind] ?? []);
  const privilege = privileges.includes(chosen) ? chosen : (privileges[0] ?? "");
  return (
    <>
      <p className="note about">
        What a role may do, and where it has the privileges from. Other roles than yours need MANAGE_GRANTS.
      </p>
      <div className="filters">
        <label className="choice">
          <span>May</span>
          <select value={role} onChange={(event) => setRole(event.target.value)}>
            {data.roles.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <label className="choice">
          <span>use</span>
          <select
            value={privilege}
            disabled={target === undefined}
            onChange={(event) => setPrivilege(event.target.value)}
          >
            {privileges.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </label>
        <label className="choice wide-choice">
          <span>on</span>
          <input
            type="search"
            list={listId}
            placeholder="Kind and name, such as database shop"
            value={object}
            onChange={(event) => setObject(event.target.value)}
          />
        </label>
        <datalist id={listId}>
          {objects.map((each) => (
            <option key={each.title} value={each.title} />
          ))}
        </datalist>
      </div>
      {target === undefined || privilege === "" || role === "" ? (
        <p className="empty-text">Choose an object.</p>
      ) : (
        <Answer statement={canStatement(role, privilege, target.target)} role={role} />
      )}
    </>
  );
}

function Answer({ statement, role }: { readonly statement: string; readonly role: string }) {
  const { data, failure } = useAnswer({ statement, read: readVerdict });
  return (
    <Loaded data={data} failure={failure} skeleton={<Skeletons rows={2} />}>
      {(verdict) => (
        <section className="verdict" aria-label="Answer" role="status">
          <p className={verdict.isAllowed ? "healthy" : "note danger"}>
            <Icon name={verdict.isAllowed ? "check" : "warning"} />{" "}
            {verdict.isAllowed ? `Yes, ${role} may.` : `No, ${role} may not.`}
          </p>
          <ol>
            {verdict.reasons.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ol>
        </section>
      )}
    </Loaded>
  );
}
