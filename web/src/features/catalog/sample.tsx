import { useMemo, useState } from "react";
import type { ResultSet } from "../../api/statements";
import { ResultView } from "../../data/result-view";
import { useAnswer } from "../../data/use-answer";
import { fixedRows } from "../../grid/rows";
import { countText } from "../../grid/values";
import { useSession } from "../../session-context";
import { Icon } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";

const ROWS = 50;
const REPEAT_EVERY_MS = 10_000;

/** Rows of a relation: those that a materialized view has now. Others have no rows that are there at once, and are read in the workspace. */
export function Sample({ path, type }: { readonly path: string; readonly type: string }) {
  return type === "materialized_view" ? <Snapshot path={path} /> : <Live path={path} type={type} />;
}

const asIs = (result: ResultSet) => result;

/** The rows of a view by a query that the user may change, as a table or a chart, renewed if wanted. */
function Snapshot({ path }: { readonly path: string }) {
  const [text, setText] = useState(`SELECT * FROM ${path} LIMIT ${ROWS};`);
  const [statement, setStatement] = useState(text);
  const [isRefused, setRefused] = useState(false);
  const { client, currentContext } = useSession();
  const [isRenewed, setRenewed] = useState(false);
  const { data, failure } = useAnswer({
    statement,
    read: asIs,
    ...(isRenewed ? { repeatEveryMs: REPEAT_EVERY_MS } : {}),
  });
  const source = useMemo(() => fixedRows(data?.rows ?? []), [data]);
  async function run(): Promise<void> {
    // What is repeated must change nothing. A text that cannot be read is run, and answers with its error.
    const statements = await client.outline(text, currentContext()).catch(() => []);
    const isSelect = statements.every(({ kind }) => kind === "SelectStatement");
    setRefused(!isSelect);
    if (isSelect) setStatement(text.trim());
  }

  return (
    <>
      <form
        className="view-query"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        <label className="field">
          Query of the view
          <textarea
            className="code-text"
            rows={3}
            spellCheck={false}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
        <p className="cell-actions sample-actions">
          <button type="submit" className="primary">
            <Icon name="play" /> Run
          </button>
          <label className="check">
            <input
              type="checkbox"
              checked={isRenewed}
              onChange={(event) => setRenewed(event.target.checked)}
            />{" "}
            Run again every ten seconds
          </label>
          {isRefused ? (
            <span className="warned" role="status">
              Only a SELECT can be run here.
            </span>
          ) : null}
        </p>
      </form>
      <Loaded data={data} failure={failure}>
        {(sample) => (
          <div className="sample-grid">
            <ResultView
              label="Sample"
              columns={sample.columns}
              source={source}
              isLive={false}
              isFollowing={false}
              onFollow={() => {}}
              figures={
                <p className="figures">
                  <strong>{countText(sample.rows.length, "row")}</strong>
                </p>
              }
              notice={null}
            />
          </div>
        )}
      </Loaded>
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
