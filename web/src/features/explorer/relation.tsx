import { useState } from "react";
import { Items } from "../../catalog/items";
import { RELATION_COLUMNS, type RelationRow } from "../../catalog/lists";
import { useList } from "../../data/use-list";
import { quotePath } from "../../sql/identifiers";
import { Icon } from "../../ui/icons";
import type { ExplorerProps } from "./explorer";
import { Row } from "./row";

const LETTERS: Readonly<Record<string, string>> = {
  stream: "S",
  changelog: "C",
  table: "T",
  "materialized view": "V",
};

interface RelationProps extends ExplorerProps {
  readonly relation: RelationRow;
}

/** A relation: it opens to its columns. */
export function Relation({ relation, ...explorer }: RelationProps) {
  const [isOpen, setOpen] = useState(false);
  const { databaseName, schemaName, name } = relation;
  const type = relation.relationType.replaceAll("_", " ");
  const select = `SELECT * FROM ${quotePath([databaseName, schemaName, name])};`;
  return (
    <>
      <Row
        actions={[
          { icon: "play", label: `Run SELECT * FROM ${name}`, onClick: () => explorer.onRun(select) },
          { icon: "write", label: `Write SELECT * FROM ${name}`, onClick: () => explorer.onInsert(select) },
        ]}
      >
        <button
          type="button"
          className="item"
          aria-expanded={isOpen}
          title={`${type} ${name}`}
          onClick={() => setOpen(!isOpen)}
        >
          <span className={isOpen ? "chevron open" : "chevron"}>
            <Icon name="chevron" />
          </span>
          <span className={`letter ${type.replaceAll(" ", "-")}`} aria-hidden="true">
            {LETTERS[type] ?? "R"}
          </span>
          <span className="item-name">{name}</span>
          <span className="hidden">{type}</span>
        </button>
      </Row>
      {isOpen ? <Columns relation={relation} isShown={explorer.isShown} /> : null}
    </>
  );
}

function Columns({ relation, isShown }: Pick<RelationProps, "relation" | "isShown">) {
  const { databaseName: database, schemaName: schema, name } = relation;
  const { data, failure } = useList(
    RELATION_COLUMNS,
    { database, schema, relation: name },
    { isEnabled: isShown },
  );
  const columns = data === null ? null : [...data].sort((one, other) => one.position - other.position);
  return (
    <div className="branch-content">
      <Items
        items={columns}
        failure={failure}
        empty="No columns."
        keyOf={(column) => column.name}
        render={(column) => (
          <p className="column" title={`${column.name} ${column.type}`}>
            <span className="item-name">{column.name}</span>
            <span className="item-state">{column.type}</span>
          </p>
        )}
      />
    </div>
  );
}
