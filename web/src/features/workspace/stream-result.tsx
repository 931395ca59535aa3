import { useEffect, useState } from "react";
import { ExportButtons } from "../../grid/export-buttons";
import { Grid } from "../../grid/grid";
import { STREAM_ROWS_MAX } from "../../grid/rows";
import { useStreamView } from "../../grid/use-stream-view";
import { countText, durationText } from "../../grid/values";
import { Empty } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { useNow } from "../../ui/use-now";
import type { StreamOutput } from "./run-state";

interface StreamResultProps {
  readonly output: StreamOutput;
  readonly startedAt: number;
  /** Null while rows may still arrive. */
  readonly finishedAt: number | null;
}

export function StreamResult({ output, startedAt, finishedAt }: StreamResultProps) {
  const { rows, columns } = output;
  const [isFollowing, setFollowing] = useState(true);
  const view = useStreamView(rows);
  const isLive = finishedAt === null;
  const now = useNow(isLive);
  const elapsed = (finishedAt ?? now) - startedAt;
  const isEmpty = view.source.length === 0;

  // A user who scrolled up reads older rows. When the oldest rows are dropped, keep the visible rows in place.
  const { isPaused, togglePause } = view;
  const isLosingRows = rows.length >= STREAM_ROWS_MAX;
  useEffect(() => {
    if (isLive && isLosingRows && !isFollowing && !isPaused) togglePause();
  }, [isLive, isLosingRows, isFollowing, isPaused, togglePause]);

  function follow(): void {
    if (isPaused) togglePause();
    setFollowing(true);
  }

  return (
    <div className="result">
      <div className="result-bar">
        <p className="figures" data-testid="stream-figures">
          <strong>{countText(rows.received, "row")}</strong>
          {isLive ? <span>{formatRate(rows.rowsPerSecond(now))} rows/s</span> : null}
          <span>{durationText(elapsed)}</span>
          {isPaused ? <span className="notice">Paused · {countText(view.waiting, "new row")}</span> : null}
          {rows.received > STREAM_ROWS_MAX ? (
            <span className="notice">Showing the newest {STREAM_ROWS_MAX.toLocaleString("en-US")}</span>
          ) : null}
        </p>
        <div className="actions">
          {isLive ? (
            <button
              type="button"
              className="ghost"
              onClick={isPaused ? follow : togglePause}
              aria-pressed={isPaused}
            >
              {isPaused ? <Icon name="play" /> : <Icon name="pause" />}
              {isPaused ? "Resume" : "Pause"}
            </button>
          ) : null}
          <button
            type="button"
            className="ghost"
            aria-pressed={isFollowing && !isPaused}
            title="Scroll to new rows automatically"
            onClick={isFollowing && !isPaused ? () => setFollowing(false) : follow}
          >
            <Icon name="tail" /> Follow
          </button>
          <button type="button" className="ghost" onClick={view.clear} disabled={isEmpty}>
            <Icon name="clear" /> Clear
          </button>
          <ExportButtons
            columns={columns ?? []}
            rowsToExport={() => view.source.toArray()}
            isDisabled={isEmpty || columns === null}
          />
        </div>
      </div>
      {columns === null ? (
        <Empty title={isLive ? "Starting the query" : "No rows"}>
          {isLive ? "Columns appear once the query runs." : "The query ended before it returned anything."}
        </Empty>
      ) : (
        <Grid
          label="Streaming rows"
          columns={columns}
          source={view.source}
          isFollowing={isFollowing && !isPaused}
          onFollow={setFollowing}
        />
      )}
      {columns !== null && isEmpty && isLive ? (
        <p className="waiting">Waiting for rows. {output.message}</p>
      ) : null}
    </div>
  );
}

function formatRate(rate: number): string {
  return rate > 0 && rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en-US");
}
