import { useMemo, useState } from "react";
import { momentOf, numberOf } from "../../data/select";
import { useAnswer } from "../../data/use-answer";
import { durationText } from "../../grid/values";
import { Dialog } from "../../ui/dialog";
import { Icon } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { SearchBox } from "../../ui/search-box";
import { timeText } from "../../ui/text";
import { pastStatements, withText } from "./history";

interface HistoryDialogProps {
  /** Puts a statement behind the editor's text. */
  readonly onWrite: (statement: string) => void;
  readonly onClose: () => void;
}

/** The user's statements, newest first: outcome, time, duration, and the way back into the editor. */
export function HistoryDialog({ onWrite, onClose }: HistoryDialogProps) {
  const [text, setText] = useState("");
  const [isWhole, setWhole] = useState(false);
  const select = useMemo(() => pastStatements(isWhole), [isWhole]);
  const { data, failure } = useAnswer(select);
  const shown = useMemo(() => withText(data ?? [], text), [data, text]);
  return (
    <Dialog title="Your statements" onClose={onClose}>
      <div className="filters">
        <SearchBox
          label="Find a statement"
          placeholder="Words of the statement, a role, denied, 42501"
          value={text}
          onChange={setText}
        />
        <label className="check">
          <input type="checkbox" checked={isWhole} onChange={(event) => setWhole(event.target.checked)} />{" "}
          Also USE and reads of the catalog
        </label>
      </div>
      <Loaded data={data} failure={failure}>
        {(statements) =>
          shown.length === 0 ? (
            <p className="empty-text">
              {statements.length === 0 ? "You have run no statement yet." : "Nothing matches."}
            </p>
          ) : (
            <ul className="past">
              {shown.map((row) => (
                <li key={row.id}>
                  <p className="past-facts">
                    <span className={`outcome ${row.outcome}`}>
                      {row.outcome === "allowed" ? "done" : `${row.outcome} ${row.sqlstate ?? ""}`}
                    </span>
                    <span>{timeText(momentOf(row.time))}</span>
                    <span>{durationText(numberOf(row.duration_ms) ?? 0)}</span>
                    <span>{row.role_name}</span>
                    <button
                      type="button"
                      className="ghost past-write"
                      aria-label={`Write into the editor: ${(row.statement ?? "").slice(0, 60)}`}
                      onClick={() => {
                        onClose();
                        onWrite(`${row.statement ?? ""};`);
                      }}
                    >
                      <Icon name="write" /> Write into the editor
                    </button>
                  </p>
                  <code className="wrapped">{row.statement}</code>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Dialog>
  );
}
