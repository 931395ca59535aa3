import { useState } from "react";
import { Items } from "../../catalog/items";
import { type ColumnItem, type RelationItem, readColumnItems } from "../../catalog/listing";
import { useListing } from "../../catalog/use-listing";
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
  readonly relation: RelationItem;
  /** Database, schema and name. */
  readonly path: readonly string[];
}

/** A relation: it opens to its columns. */
export function Relation({ relation, path, ...explorer }: RelationProps) {
  const [isOpen, setOpen] = useState(false);
  const name = path.at(-1) ?? "";
  const type = relation.type || "relation";
  const select = `SELECT * FROM ${quotePath(path)};`;
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
      {isOpen ? <Columns {...explorer} path={path} /> : null}
    </>
  );
}

function Columns({ client, context, version, path }: ExplorerProps & { readonly path: readonly string[] }) {
  const listing = useListing<ColumnItem>({
    client,
    context,
    version,
    statement: `DESCRIBE RELATION COLUMNS ${quotePath(path)};`,
    read: readColumnItems,
  });
  return (
    <div className="branch-content">
      <Items
        listing={listing}
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
