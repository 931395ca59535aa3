import { useEffect, useState } from "react";
import type { Column } from "../../api/wire";
import { ResultView } from "../../data/result-view";
import { STREAM_ROWS_MAX } from "../../grid/rows";
import { useStreamView } from "../../grid/use-stream-view";
import { countText, durationText } from "../../grid/values";
import { Empty } from "../../ui/empty";
import { Icon } from "../../ui/icons";
import { useNow } from "../../ui/use-now";
import type { StreamOutput } from "./run-state";

const NO_COLUMNS: readonly Column[] = [];

interface StreamResultProps {
  readonly output: StreamOutput;
  readonly startedAt: number;
  /** Null while rows may still arrive. */
  readonly finishedAt: number | null;
}

export function StreamResult({ output, startedAt, finishedAt }: StreamResultProps) {
  const { rows, columns } = output;
  const [isFollowing, setFollowing] = useState(true);
  const [isCurrent, setCurrent] = useState(false);
  const view = useStreamView(rows, isCurrent);
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

  const hasKey = columns?.some((column) => column.isKey === true) === true;
  return (
    <div className="result">
      <ResultView
        label="Streaming rows"
        columns={columns ?? NO_COLUMNS}
        source={view.source}
        isLive={isLive && !isPaused}
        isFollowing={isFollowing && !isPaused}
        onFollow={setFollowing}
        figures={
          <p className="figures" data-testid="stream-figures">
            <strong>{countText(rows.received, "row")}</strong>
            {isLive ? <span>{formatRate(rows.rowsPerSecond(now))} rows/s</span> : null}
            <span>{durationText(elapsed)}</span>
            {isCurrent ? <span>{countText(view.source.length, "key")}</span> : null}
            {isPaused ? <span className="notice">Paused · {countText(view.waiting, "new row")}</span> : null}
            {rows.received > STREAM_ROWS_MAX ? (
              <span className="notice">Showing the newest {STREAM_ROWS_MAX.toLocaleString("en-US")}</span>
            ) : null}
          </p>
        }
        actions={
          <>
            {hasKey ? (
              <button
                type="button"
                className="ghost"
                aria-pressed={isCurrent}
                title="Show the newest row of each key instead of all changes"
                onClick={() => setCurrent(!isCurrent)}
              >
                <Icon name="access" /> Current by key
              </button>
            ) : null}
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
          </>
        }
        notice={
          columns === null ? (
            <Empty title={isLive ? "Starting the query" : "No rows"}>
              {isLive
                ? "Columns appear once the query runs."
                : "The query ended before it returned anything."}
            </Empty>
          ) : null
        }
      />
      {columns !== null && isEmpty && isLive ? (
        <p className="waiting">Waiting for rows. {output.message}</p>
      ) : null}
    </div>
  );
}

function formatRate(rate: number): string {
  return rate > 0 && rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en-US");
}
