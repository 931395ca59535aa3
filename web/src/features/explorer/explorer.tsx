import type { StatementClient } from "../../api/statements";
import type { StatementContext } from "../../api/wire";
import { Icon } from "../../ui/icons";
import { Splitter } from "../../ui/splitter";
import { ComputePools } from "./compute-pools";
import { Databases } from "./databases";
import { Queries } from "./queries";
import { Stores } from "./stores";

export interface ExplorerProps {
  readonly client: StatementClient;
  readonly context: StatementContext;
  /** False while another page is shown: nothing is read then. */
  readonly isShown: boolean;
  readonly onRefresh: () => void;
  /** Runs a statement by itself: its result shows below, the editor's text stays as it is. */
  readonly onRun: (statement: string) => void;
  /** Puts a statement behind the editor's text. */
  readonly onInsert: (statement: string) => void;
}

interface ResizableProps extends ExplorerProps {
  readonly width: number;
  readonly onWidth: (width: number) => void;
}

export function Explorer({ width, onWidth, ...props }: ResizableProps) {
  return (
    <aside className="explorer" aria-label="Explorer">
      <header className="explorer-head">
        <span>Explorer</span>
        <button
          type="button"
          className="ghost"
          onClick={props.onRefresh}
          aria-label="Refresh the explorer"
          title="Refresh"
        >
          <Icon name="refresh" />
        </button>
      </header>
      <div className="explorer-body">
        <Stores {...props} />
        <Databases {...props} />
        <Queries {...props} />
        <ComputePools {...props} />
      </div>
      <Splitter
        label="Width of the explorer"
        orientation="vertical"
        size={width}
        min={180}
        max={520}
        onResize={onWidth}
      />
    </aside>
  );
}
