import { lazy, type ReactNode, Suspense, useState } from "react";
import type { Column } from "../api/wire";
import { ArrangeTools } from "../grid/arrange-tools";
import { ExportButtons } from "../grid/export-buttons";
import { Grid } from "../grid/grid";
import type { RowSource } from "../grid/rows";
import { useArranged } from "../grid/use-arranged";
import { countText } from "../grid/values";
import { Icon } from "../ui/icons";

const ResultChart = lazy(() => import("./result-chart").then((module) => ({ default: module.ResultChart })));

interface ResultViewProps {
  readonly label: string;
  readonly columns: readonly Column[];
  readonly source: RowSource;
  readonly isLive: boolean;
  readonly isFollowing: boolean;
  readonly onFollow: (isFollowing: boolean) => void;
  readonly figures: ReactNode;
  readonly actions?: ReactNode;
  /** Shown instead of the rows. */
  readonly notice: ReactNode;
}

/** The rows of a result as a table or a chart, as the reader arranges them, with its figures and what can be done with it. */
export function ResultView(props: ResultViewProps) {
  const { label, columns, source, isLive, isFollowing, onFollow, figures, actions, notice } = props;
  const arranged = useArranged(columns, source, isLive);
  const [isChart, setChart] = useState(false);
  // The one row of a statement that changed something has nothing to arrange.
  const isTrivial = !isLive && source.length <= 1;
  const isArranged = arranged.source.length !== source.length;
  return (
    <>
      <div className="result-bar">
        {figures}
        <div className="actions">{actions}</div>
      </div>
      {columns.length === 0 || isTrivial ? null : (
        <div className="result-bar tools">
          <div className="actions">
            <ArrangeTools columns={columns} arranged={arranged} />
            {isArranged ? (
              <span className="faint" role="status">
                {countText(arranged.source.length, "row")} of those shown
              </span>
            ) : null}
          </div>
          <div className="actions">
            <button type="button" className="ghost" aria-pressed={isChart} onClick={() => setChart(!isChart)}>
              <Icon name="queries" /> Chart
            </button>
            <ExportButtons
              columns={arranged.columns}
              rowsToExport={() => arranged.source.toArray()}
              isDisabled={arranged.source.length === 0}
            />
          </div>
        </div>
      )}
      {notice ??
        (isChart ? (
          <Suspense fallback={null}>
            <ResultChart columns={arranged.columns} source={arranged.source} isLive={isLive} />
          </Suspense>
        ) : (
          <Grid
            label={label}
            columns={arranged.columns}
            source={arranged.source}
            isFollowing={isFollowing}
            onFollow={onFollow}
            order={arranged.order}
            onOrder={arranged.onOrder}
          />
        ))}
    </>
  );
}
