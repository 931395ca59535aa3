import type { ResultSet } from "../../api/statements";
import { useAnswer } from "../../data/use-answer";
import { Grid } from "../../grid/grid";
import { fixedRows } from "../../grid/rows";
import { useSession } from "../../session-context";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";
import { Skeletons } from "../../ui/page";

const ROWS = 50;

/** Rows of a relation: those that a materialized view has now. Others have no rows that are there at once, and are read in the workspace. */
export function Sample({ path, type }: { readonly path: string; readonly type: string }) {
  return type === "materialized_view" ? <Snapshot path={path} /> : <Live path={path} type={type} />;
}

const asIs = (result: ResultSet) => result;

function Snapshot({ path }: { readonly path: string }) {
  const { data, failure } = useAnswer({ statement: `SELECT * FROM ${path} LIMIT ${ROWS};`, read: asIs });
  if (data === null) return failure === null ? <Skeletons /> : <FailureNote failure={failure} />;
  return (
    <>
      <p className="note">
        {data.rows.length === 0
          ? "The view has no rows."
          : `${data.rows.length} rows, in no particular order.`}
      </p>
      <div className="sample-grid">
        <Grid
          label="Sample"
          columns={data.columns}
          source={fixedRows(data.rows)}
          isFollowing={false}
          onFollow={() => {}}
        />
      </div>
    </>
  );
}

function Live({ path, type }: { readonly path: string; readonly type: string }) {
  const { runStatement } = useSession();
  const first = `SELECT * FROM ${path} WITH ('starting.position' = 'earliest') LIMIT ${ROWS};`;
  const every = `SELECT * FROM ${path};`;
  return (
    <>
      <p className="empty-text">
        The rows of a {type.replaceAll("_", " ")} come from its store, by a query that runs in your compute
        pool. It starts in the workspace.
      </p>
      <p className="cell-actions sample-actions">
        {type === "table" ? null : (
          <button type="button" className="secondary" onClick={() => runStatement(first)}>
            <Icon name="play" /> The first {ROWS} rows
          </button>
        )}
        <button type="button" className="secondary" onClick={() => runStatement(every)}>
          <Icon name="play" /> {type === "table" ? "Its rows" : "Rows from now on"}
        </button>
      </p>
    </>
  );
}
