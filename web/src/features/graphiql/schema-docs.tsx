import type { GraphQLSchema } from "graphql";
import { useState } from "react";
import { Icon } from "../../ui/icons";
import { SearchBox } from "../../ui/search-box";
import { membersOf, rootTypes } from "./schema";

/** The types of the schema, one at a time, with links to those of its fields and arguments. */
export function SchemaDocs({ schema }: { readonly schema: GraphQLSchema }) {
  const [path, setPath] = useState<readonly string[]>([]);
  const [text, setText] = useState("");
  const name = path.at(-1);
  const type = name === undefined ? undefined : schema.getType(name);
  const open = (next: string) => {
    setPath([...path, next]);
    setText("");
  };
  if (type === undefined || type === null) {
    return (
      <>
        <h2>Schema</h2>
        <ul className="side-list">
          {rootTypes(schema).map((root) => (
            <li key={root.name}>
              <TypeLink name={root.name} text={root.name} onOpen={open} />
            </li>
          ))}
        </ul>
      </>
    );
  }
  const members = membersOf(type);
  const shown = members.filter((member) => member.name.toLowerCase().includes(text.trim().toLowerCase()));
  return (
    <>
      <div className="docs-head">
        <button type="button" className="ghost" onClick={() => setPath(path.slice(0, -1))}>
          <Icon name="undo" /> {path.at(-2) ?? "Schema"}
        </button>
        <h2>{type.name}</h2>
      </div>
      {type.description ? <p className="note">{type.description}</p> : null}
      {members.length > 10 ? (
        <SearchBox
          label={`Find in ${type.name}`}
          placeholder={`Find in ${type.name}`}
          value={text}
          onChange={setText}
        />
      ) : null}
      <ul className="side-list">
        {shown.map((member) => (
          <li key={member.name}>
            <p>
              <code>{member.name}</code>
              {member.inputs.length === 0 ? null : (
                <span className="faint">
                  (
                  {member.inputs.map((input, place) => (
                    <span key={input.name}>
                      {place === 0 ? "" : ", "}
                      {input.name}: <TypeLink name={input.named} text={input.type} onOpen={open} />
                    </span>
                  ))}
                  )
                </span>
              )}
              {member.type === "" ? null : (
                <>
                  : <TypeLink name={member.named} text={member.type} onOpen={open} />
                </>
              )}
            </p>
            {member.description === "" ? null : <p className="note">{member.description}</p>}
          </li>
        ))}
      </ul>
    </>
  );
}

interface TypeLinkProps {
  readonly name: string;
  readonly text: string;
  readonly onOpen: (name: string) => void;
}

function TypeLink({ name, text, onOpen }: TypeLinkProps) {
  return (
    <button type="button" className="link calm" onClick={() => onOpen(name)}>
      {text}
    </button>
  );
}
