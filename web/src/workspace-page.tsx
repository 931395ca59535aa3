import type { SQLNamespace } from "@codemirror/lang-sql";
import { type CSSProperties, useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { StatementContext } from "./api/wire";
import { Explorer } from "./features/explorer/explorer";
import { Workspace } from "./features/workspace/workspace";
import { useSession } from "./session-context";
import type { SqlEditor } from "./sql/editor";

type Names = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

/** Explorer on the left, workspace beside it. Hidden, it keeps its text, and a live result goes on. */
export function WorkspacePage({ isShown }: { readonly isShown: boolean }) {
  const { client, context, currentContext, onContext, refresh, version, inbox } = useSession();
  const [names, setNames] = useState<Names>({});
  const [sideWidth, setSideWidth] = useState(300);
  const editor = useRef<SqlEditor | null>(null);
  const [isEditorThere, setEditorThere] = useState(false);
  const runApart = useRef<(statement: string) => void>(() => {});
  const newWorksheet = useRef<() => void>(() => {});

  const onNames = useCallback((database: string, schema: string, relations: readonly string[]) => {
    setNames((before) => ({ ...before, [database]: { ...before[database], [schema]: relations } }));
  }, []);
  const onInsert = useCallback((statement: string) => editor.current?.insertStatement(statement), []);
  const onRun = useCallback((statement: string) => runApart.current(statement), []);
  const onEditor = useCallback(() => setEditorThere(true), []);
  useEffect(() => {
    if (!isEditorThere) return;
    return inbox.open((entry) => {
      if (entry.kind === "new worksheet") newWorksheet.current();
      else (entry.kind === "run" ? onRun : onInsert)(entry.statement);
    });
  }, [inbox, isEditorThere, onInsert, onRun]);
  const environment = useMemo(
    () => ({ client, currentContext, onContext, onEffect: refresh }),
    [client, currentContext, onContext, refresh],
  );
  const completion = useMemo(() => completionNames(names, context), [names, context]);

  return (
    <div className="workspace-page" style={{ "--side": `${sideWidth}px` } as CSSProperties} hidden={!isShown}>
      <Explorer
        client={client}
        context={context}
        version={version}
        isShown={isShown}
        onRefresh={refresh}
        onRun={onRun}
        onInsert={onInsert}
        onNames={onNames}
        width={sideWidth}
        onWidth={setSideWidth}
      />
      <Workspace
        environment={environment}
        editor={editor}
        runApart={runApart}
        newWorksheet={newWorksheet}
        names={completion}
        isShown={isShown}
        onEditor={onEditor}
      />
    </div>
  );
}

/** Relations of the current schema complete by their bare names, all others by their paths. */
function completionNames(names: Names, context: StatementContext): SQLNamespace {
  const here = names[context.database ?? ""]?.[context.schema ?? ""] ?? [];
  const bare = Object.fromEntries(here.map((relation) => [relation, []]));
  const paths = Object.fromEntries(
    Object.entries(names).map(([database, schemas]) => [
      database,
      Object.fromEntries(
        Object.entries(schemas).map(([schema, relations]) => [
          schema,
          Object.fromEntries(relations.map((relation) => [relation, []])),
        ]),
      ),
    ]),
  );
  return { ...bare, ...paths };
}
