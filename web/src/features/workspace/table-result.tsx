import { useCallback, useMemo } from "react";
import type { ResultSet } from "../../api/statements";
import { ResultView } from "../../data/result-view";
import { fixedRows } from "../../grid/rows";
import { countText, durationText } from "../../grid/values";
import { Empty } from "../../ui/empty";

interface TableResultProps {
  readonly result: ResultSet;
  readonly durationMs: number;
}

export function TableResult({ result, durationMs }: TableResultProps) {
  const source = useMemo(() => fixedRows(result.rows), [result]);
  const stayPut = useCallback(() => {}, []);
  return (
    <div className="result">
      <ResultView
        label="Result rows"
        columns={result.columns}
        source={source}
        isLive={false}
        isFollowing={false}
        onFollow={stayPut}
        figures={
          <p className="figures">
            <strong>{countText(result.rows.length, "row")}</strong>
            <span>{durationText(durationMs)}</span>
            {result.message === "" ? null : <span>{result.message}</span>}
            {result.isTruncated ? (
              <span className="notice">
                Only the first {result.rows.length.toLocaleString("en-US")} rows are shown
              </span>
            ) : null}
          </p>
        }
        notice={
          result.columns.length === 0 ? (
            <Empty title="Done">The statement ran and returns no rows.</Empty>
          ) : null
        }
      />
      {result.columns.length > 0 && result.rows.length === 0 ? (
        <p className="waiting">No rows match.</p>
      ) : null}
    </div>
  );
}
