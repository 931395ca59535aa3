import { useEffect, useMemo, useRef, useState } from "react";
import { openStream, type Stream } from "../../api/dataplane";
import { type Failure, failureOf } from "../../api/failures";
import type { Column, Row } from "../../api/wire";
import { RELATIONS } from "../../catalog/lists";
import { InsertDialog, type InsertTarget } from "../../data/insert-dialog";
import { useList } from "../../data/use-list";
import { useRefusal } from "../../data/use-right";
import { ExportButtons } from "../../grid/export-buttons";
import { Grid } from "../../grid/grid";
import { fixedRows, StreamRows } from "../../grid/rows";
import { useStreamView } from "../../grid/use-stream-view";
import { countText } from "../../grid/values";
import { useSession } from "../../session-context";
import { quoteIdentifier } from "../../sql/identifiers";
import { ActionButton } from "../../ui/action-button";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";
import { SearchBox } from "../../ui/search-box";
import { useNow } from "../../ui/use-now";
import { DropEntityDialog } from "./entity-dialogs";
import { hasTopics } from "./from-entity";
import { FromEntityDialog } from "./from-entity-dialog";
import { FORMATS, NEWEST, printStatement, type RecordFormat, recordFilter, type Start } from "./print";
import { ProduceDialog } from "./produce-dialog";
import { useStoreProperties } from "./use-store-properties";

interface MessageBrowserProps {
  readonly store: string;
  /** Called when the entity was dropped. */
  readonly onDropped: () => void;
  readonly path: readonly string[];
}

const STARTS: readonly (readonly [Start, string])[] = [
  ["earliest", "the first record"],
  ["newest", "the newest records"],
  ["latest", "now"],
  ["timestamp", "a time"],
  ["offsets", "offsets"],
];
const INSERTABLE = new Set(["stream", "changelog", "table"]);
/** Starts of stores whose records have offsets. */
const OF_OFFSETS: readonly Start[] = ["newest", "offsets"];

/** The records of an entity as they are in the store, from where the user wants, until they stop. */
export function MessageBrowser({ store, path, onDropped }: MessageBrowserProps) {
  const [start, setStart] = useState<Start>("earliest");
  const [moment, setMoment] = useState("");
  const [offsets, setOffsets] = useState("");
  const [filter, setFilter] = useState("");
  const [limit, setLimit] = useState("");
  const [keyFormat, setKeyFormat] = useState<RecordFormat>("text");
  const [valueFormat, setValueFormat] = useState<RecordFormat>("text");
  const statement = printStatement(store, path, {
    start,
    moment,
    offsets,
    filter,
    limit,
    keyFormat,
    valueFormat,
  });
  const reading = useReading();
  const [text, setText] = useState("");
  const [partition, setPartition] = useState("");
  const view = useStreamView(reading.rows);
  const shows = useMemo(
    () => recordFilter(reading.columns ?? [], { text, partition }),
    [reading.columns, text, partition],
  );
  const isFiltered = text.trim() !== "" || partition.trim() !== "";
  const source = isFiltered ? fixedRows(view.source.toArray().filter(shows)) : view.source;
  const now = useNow(reading.isLive, 1000);
  const name = path.at(-1) ?? "";
  const ofStore = useStoreProperties(store);
  const hasOffsets = ofStore.some(({ name }) => name === "starting.position.offsets");
  const properties = ofStore.filter(({ statements }) => statements.includes("INSERT INTO ENTITY"));
  const refusal = useRefusal("USAGE", `STORE ${quoteIdentifier(store)}`);
  const [dialog, setDialog] = useState<"produce" | "relation" | "insert" | "drop" | null>(null);
  const targets = useTargets(store, path);
  const close = () => setDialog(null);
  const [isWritten, setWritten] = useState(false);

  return (
    <section className="messages" aria-label={`Records of ${name}`}>
      <div className="filters">
        <label className="choice">
          <span>Start at</span>
          <select value={start} onChange={(event) => setStart(event.target.value as Start)}>
            {STARTS.filter(([value]) => hasOffsets || !OF_OFFSETS.includes(value)).map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
        {start === "timestamp" ? (
          <label className="choice">
            <span className="hidden">Time of the first record</span>
            <input type="datetime-local" value={moment} onChange={(event) => setMoment(event.target.value)} />
          </label>
        ) : null}
        {start === "offsets" ? (
          <label className="choice">
            <span className="hidden">Partition and offset of the first records</span>
            <input
              placeholder="0:1200, 1:980"
              value={offsets}
              onChange={(event) => setOffsets(event.target.value)}
            />
          </label>
        ) : null}
        <label className="choice">
          <span>Only with</span>
          <input
            placeholder="a text, or $.user = 7"
            title="Records that contain a text, or whose JSON value meets a condition such as $.user.id >= 7"
            value={filter}
            onChange={(event) => setFilter(event.target.value)}
          />
        </label>
        <label className="choice">
          <span>At most</span>
          <input
            className="short"
            inputMode="numeric"
            placeholder={start === "newest" ? String(NEWEST) : "all"}
            value={limit}
            onChange={(event) => setLimit(event.target.value)}
          />
        </label>
        {hasTopics(ofStore) ? (
          <>
            <FormatChoice label="Key as" value={keyFormat} onChange={setKeyFormat} />
            <FormatChoice label="Value as" value={valueFormat} onChange={setValueFormat} />
          </>
        ) : null}
        {reading.isLive ? (
          <button type="button" className="secondary stop" onClick={reading.stop}>
            <Icon name="stop" /> Stop
          </button>
        ) : (
          <button
            type="button"
            className="primary"
            disabled={statement === null}
            onClick={() => {
              setWritten(false);
              if (statement !== null) reading.start(statement);
            }}
          >
            <Icon name="play" /> Read
          </button>
        )}
      </div>
      <FailureNote failure={reading.failure} />
      <div className="result-bar">
        <p className="figures" role="status">
          <strong>{countText(reading.rows.received, "record")}</strong>
          {reading.isLive ? <span>{Math.round(reading.rows.rowsPerSecond(now))}/s</span> : null}
          {isFiltered ? <span>{countText(source.length, "record")} shown</span> : null}
          {isWritten && !reading.isLive ? <span>A record was written: Read shows it.</span> : null}
          {reading.rows.dropped > 0 ? <span className="notice">only the newest 10,000 are kept</span> : null}
        </p>
        <div className="actions">
          {hasTopics(ofStore) ? (
            <ActionButton refusal={refusal} onClick={() => setDialog("relation")}>
              <Icon name="plus" /> Create a relation
            </ActionButton>
          ) : null}
          <ActionButton
            refusal={targets.length === 0 ? "No relation that your role sees is over this entity." : null}
            onClick={() => setDialog("insert")}
          >
            <Icon name="plus" /> Insert a row
          </ActionButton>
          {properties.length === 0 ? null : (
            <ActionButton refusal={refusal} onClick={() => setDialog("produce")}>
              <Icon name="write" /> Write a record
            </ActionButton>
          )}
          <ActionButton isDangerous refusal={refusal} onClick={() => setDialog("drop")}>
            <Icon name="clear" /> Drop
          </ActionButton>
          <ExportButtons
            columns={reading.columns ?? []}
            rowsToExport={() => source.toArray()}
            isDisabled={source.length === 0}
          />
        </div>
      </div>
      {reading.columns === null || reading.rows.received === 0 ? null : (
        <div className="filters">
          <SearchBox
            label="Filter the records shown by key and value"
            placeholder="Key or value, of the records shown"
            value={text}
            onChange={setText}
          />
          <label className="choice">
            <span>Partition</span>
            <input
              className="short"
              inputMode="numeric"
              placeholder="all"
              value={partition}
              onChange={(event) => setPartition(event.target.value)}
            />
          </label>
        </div>
      )}
      <div className="sample-grid messages-grid">
        {reading.columns === null || reading.rows.received === 0 ? (
          <p className="empty-text messages-note">{noRecords(reading)}</p>
        ) : (
          <Grid
            label={`Records of ${name}`}
            columns={reading.columns}
            source={source}
            isFollowing={false}
            onFollow={() => {}}
          />
        )}
      </div>
      {dialog === "relation" ? <FromEntityDialog store={store} path={path} onClose={close} /> : null}
      {dialog === "insert" ? (
        <InsertDialog targets={targets} onClose={close} onDone={() => setWritten(true)} />
      ) : null}
      {dialog === "drop" ? (
        <DropEntityDialog store={store} path={path} onClose={close} onDone={onDropped} />
      ) : null}
      {dialog === "produce" ? (
        <ProduceDialog
          store={store}
          path={path}
          properties={properties}
          onClose={close}
          onDone={() => setWritten(true)}
        />
      ) : null}
    </section>
  );
}

/** The relations over an entity that take rows. */
function useTargets(store: string, path: readonly string[]): readonly InsertTarget[] {
  const { data } = useList(RELATIONS, {});
  const entity = path.join(".");
  return useMemo(
    () =>
      (data ?? [])
        .filter((each) => each.storeName === store && each.entity === entity)
        .filter(({ relationType }) => INSERTABLE.has(relationType))
        .map(({ fqn, relationType }) => ({ fqn, type: relationType })),
    [data, store, entity],
  );
}

/** Note in the place of the records while there are none. */
function noRecords({ columns, isLive, failure }: ReturnType<typeof useReading>): string {
  if (failure !== null) return "";
  if (columns === null)
    return isLive ? "Waiting for the store." : "Read shows the records as they are in the store.";
  return isLive ? "No record yet. Records appear here as the store sends them." : "No records.";
}

interface FormatChoiceProps {
  readonly label: string;
  readonly value: RecordFormat;
  readonly onChange: (format: RecordFormat) => void;
}

function FormatChoice({ label, value, onChange }: FormatChoiceProps) {
  return (
    <label className="choice">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.target.value as RecordFormat)}>
        {Object.entries(FORMATS).map(([format, name]) => (
          <option key={format} value={format}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Runs one PRINT at a time. Leaving the page ends it on the server. */
function useReading() {
  const { client, currentContext } = useSession();
  const [rows, setRows] = useState(() => new StreamRows());
  const [columns, setColumns] = useState<readonly Column[] | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [isLive, setLive] = useState(false);
  const running = useRef<{ readonly controller: AbortController; stream: Stream | null } | null>(null);

  function stop(): void {
    running.current?.controller.abort();
    running.current?.stream?.close();
    running.current = null;
    setLive(false);
  }
  // biome-ignore lint/correctness/useExhaustiveDependencies: only at the end of the page.
  useEffect(() => stop, []);

  async function start(statement: string): Promise<void> {
    stop();
    const fresh = new StreamRows();
    const own = { controller: new AbortController(), stream: null as Stream | null };
    const isOwn = () => running.current === own;
    running.current = own;
    setRows(fresh);
    setColumns(null);
    setFailure(null);
    setLive(true);
    try {
      const outcome = await client.run({
        statement,
        context: currentContext(),
        signal: own.controller.signal,
      });
      if (!isOwn()) return;
      if (outcome.kind === "result") {
        for (const row of outcome.rows) fresh.append(row, Date.now());
        setColumns(outcome.columns);
        setLive(false);
        return;
      }
      own.stream = openStream(outcome.request, {
        onColumns: (next) => isOwn() && setColumns(next),
        onRow: (row: Row) => fresh.append(row, Date.now()),
        onEnd: () => isOwn() && setLive(false),
        onFailure: (problem) => {
          if (!isOwn()) return;
          setFailure(problem);
          setLive(false);
        },
      });
    } catch (error) {
      if (!isOwn()) return;
      setFailure(failureOf(error));
      setLive(false);
    }
  }

  return { rows, columns, failure, isLive, start: (statement: string) => void start(statement), stop };
}
