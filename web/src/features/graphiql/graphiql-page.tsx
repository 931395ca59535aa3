import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { type Failure, failureOf } from "../../api/failures";
import { readVariables } from "../../api/graphql";
import { useConsole } from "../../data/use-console";
import { durationText } from "../../grid/values";
import { useSession } from "../../session-context";
import { Empty } from "../../ui/empty";
import { FailureNote } from "../../ui/failure-note";
import { Icon } from "../../ui/icons";
import { COMMAND_KEY } from "../../ui/keys";
import { Page, PageLoading } from "../../ui/page";
import { OperationEditor } from "./operation-editor";
import { INTROSPECTION, operationsOf, readSchema } from "./schema";
import { SchemaDocs } from "./schema-docs";
import "../../styles/graphiql.css";

const KEPT_KEY = "headrace.graphiql";
const STARTING_TEXT = `# Ctrl+Space completes, ${COMMAND_KEY}+Enter runs.
{
  queries(first: 10) {
    nodes {
      name
      currentState
    }
  }
}
`;

/** An editor for operations of GraphQL, which the setting HEADRACE_GRAPHIQL switches on. */
export function GraphiqlPage() {
  const parts = useConsole();
  if (parts === null) return <PageLoading />;
  if (!parts.graphiql) {
    return (
      <Page title="GraphQL">
        <Empty title="This page is off">
          Start the server with <code>HEADRACE_GRAPHIQL=1</code> to write and run operations of GraphQL here.
        </Empty>
      </Page>
    );
  }
  return <Graphiql />;
}

function Graphiql() {
  const { client, currentContext } = useSession();
  const [start] = useState(() => sessionStorage.getItem(KEPT_KEY) ?? STARTING_TEXT);
  const [text, setText] = useState(start);
  const [variables, setVariables] = useState("");
  const [name, setName] = useState<string | null>(null);
  const [answer, setAnswer] = useState<{ readonly text: string; readonly durationMs: number } | null>(null);
  const [failure, setFailure] = useState<Failure | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const running = useRef<AbortController | null>(null);
  const schema = useQuery({
    queryKey: ["graphql schema"],
    queryFn: async () => {
      const operation = { query: INTROSPECTION, variables: null, operationName: null };
      return readSchema(await client.graphql(operation, currentContext()));
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  const operations = useMemo(() => operationsOf(text), [text]);
  const chosen = operations.find((operation) => operation.name === name) ?? operations[0];

  async function run(): Promise<void> {
    running.current?.abort();
    setFailure(null);
    setProblem(null);
    if (chosen?.isSubscription === true) {
      setProblem(
        "This page runs queries and mutations. A subscription needs a client of graphql-transport-ws.",
      );
      return;
    }
    const controller = new AbortController();
    running.current = controller;
    const began = performance.now();
    try {
      const operation = {
        query: text,
        variables: readVariables(variables),
        operationName: chosen?.name ?? null,
      };
      const received = await client.graphql(operation, currentContext(), controller.signal);
      setAnswer({ text: JSON.stringify(received, null, 2), durationMs: performance.now() - began });
    } catch (error) {
      if (controller.signal.aborted) return;
      if (error instanceof SyntaxError) setProblem(`The variables cannot be read: ${error.message}.`);
      else setFailure(failureOf(error));
    }
  }

  return (
    <Page
      title="GraphQL"
      isFixed
      actions={
        <>
          {operations.length > 1 ? (
            <label className="choice">
              <span>Operation</span>
              <select value={chosen?.name ?? ""} onChange={(event) => setName(event.target.value)}>
                {operations.map((operation, place) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: two operations may have one name, which the server refuses.
                  <option key={place} value={operation.name ?? ""}>
                    {operation.name ?? "without a name"}
                  </option>
                ))}
              </select>
            </label>
          ) : null}
          <button type="button" className="primary" onClick={() => void run()}>
            <Icon name="play" /> Run
            <span className="keys" aria-hidden="true">
              {COMMAND_KEY} ↵
            </span>
          </button>
        </>
      }
    >
      <div className="graphiql">
        <section className="graphiql-part" aria-label="Write">
          <div className="graphiql-editor">
            <OperationEditor
              start={start}
              schema={schema.data ?? null}
              onChange={(next) => {
                setText(next);
                sessionStorage.setItem(KEPT_KEY, next);
              }}
              onRun={() => void run()}
            />
          </div>
          <label className="field">
            Variables, one JSON object
            <textarea
              className="code-text"
              rows={3}
              spellCheck={false}
              placeholder='{"first": 10}'
              value={variables}
              onChange={(event) => setVariables(event.target.value)}
            />
          </label>
        </section>
        <section className="graphiql-part" aria-label="Answer">
          <FailureNote failure={failure} />
          {problem === null ? null : (
            <p className="note danger" role="alert">
              {problem}
            </p>
          )}
          {answer === null ? (
            <p className="empty-text">Run shows the answer here. A mutation changes the server at once.</p>
          ) : (
            <>
              <p className="faint" role="status">
                {durationText(answer.durationMs)}
              </p>
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard must be able to scroll a long answer. */}
              <pre className="viewer-value" tabIndex={0}>
                {answer.text}
              </pre>
            </>
          )}
        </section>
        <aside className="graphiql-part graphiql-docs" aria-label="Docs">
          {schema.data === undefined ? (
            schema.error === null ? (
              <div className="skeleton" />
            ) : (
              <p className="note danger">The schema cannot be read: {failureOf(schema.error).message}</p>
            )
          ) : (
            <SchemaDocs schema={schema.data} />
          )}
        </aside>
      </div>
    </Page>
  );
}
