import { keepPreviousData } from "@tanstack/react-query";
import { useAnswer } from "../../data/use-answer";
import { quoteIdentifier, quotePath } from "../../sql/identifiers";
import { Empty } from "../../ui/empty";
import { FailureNote } from "../../ui/failure-note";
import { hasTopics } from "./from-entity";
import { type Partition, readPartitions, readSettings } from "./layout";
import { useStoreProperties } from "./use-store-properties";

interface EntityLayoutProps {
  readonly store: string;
  readonly path: readonly string[];
}

/** SQLSTATE of stores without entities of their own. */
const NOT_SUPPORTED = "0A000";
/** Partitions grow while somebody looks. */
const REPEATED_EVERY_MS = 5000;

/** The partitions of an entity with their ends, and its settings, as the store reports them. */
export function EntityLayout({ store, path }: EntityLayoutProps) {
  const hasPartitions = hasTopics(useStoreProperties(store));
  const entity = quotePath(path);
  const where = `IN STORE ${quoteIdentifier(store)}`;
  const partitions = useAnswer<readonly Partition[]>({
    statement: `LIST PARTITIONS IN ${entity} ${where};`,
    read: readPartitions,
    repeatEveryMs: REPEATED_EVERY_MS,
    isEnabled: hasPartitions,
    placeholder: keepPreviousData,
  });
  const settings = useAnswer({ statement: `DESCRIBE ENTITY ${entity} ${where};`, read: readSettings });
  return (
    <div className="entity-layout">
      {hasPartitions ? (
        <div>
          <h2>Partitions</h2>
          <FailureNote failure={partitions.failure} />
          {partitions.data === null ? null : <PartitionTable partitions={partitions.data} />}
        </div>
      ) : null}
      <div>
        <h2>Settings</h2>
        {settings.failure?.kind === "sql" && settings.failure.sqlState === NOT_SUPPORTED ? (
          <Empty title="No settings">A stream declares the entity: its definition has the settings.</Empty>
        ) : (
          <FailureNote failure={settings.failure} />
        )}
        {settings.data === null ? null : <Settings settings={settings.data} />}
      </div>
    </div>
  );
}

function PartitionTable({ partitions }: { readonly partitions: readonly Partition[] }) {
  const details = [...new Set(partitions.flatMap((partition) => Object.keys(partition.details)))];
  const isCounted = partitions.some(({ records }) => records !== null);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <section className="table-frame" aria-label="Partitions" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Partition</th>
            <th scope="col">Start</th>
            <th scope="col">End</th>
            {isCounted ? <th scope="col">Records, at most</th> : null}
            {details.map((name) => (
              <th key={name} scope="col">
                {name.replaceAll("_", " ").replace(/^./, (letter) => letter.toUpperCase())}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {partitions.map(({ number, start, end, records, details: own }) => (
            <tr key={number}>
              <td>{number}</td>
              <td>{start}</td>
              <td>{end ?? "open"}</td>
              {isCounted ? <td>{records?.toLocaleString("en")}</td> : null}
              {details.map((name) => (
                <td key={name}>{own[name]}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Settings({ settings }: { readonly settings: readonly (readonly [string, string])[] }) {
  if (settings.length === 0)
    return <Empty title="No settings of its own">The entity has the defaults of its store.</Empty>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <section className="table-frame" aria-label="Settings" tabIndex={0}>
      <table className="table">
        <thead>
          <tr>
            <th scope="col">Setting</th>
            <th scope="col">Value</th>
          </tr>
        </thead>
        <tbody>
          {settings.map(([name, value]) => (
            <tr key={name}>
              <td>{name}</td>
              <td className="setting-value">{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
