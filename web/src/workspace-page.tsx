import { type CSSProperties, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Explorer } from "./features/explorer/explorer";
import { Workspace } from "./features/workspace/workspace";
import { useSession } from "./session-context";
import type { SqlEditor } from "./sql/editor";

/** Explorer on the left, workspace beside it. Hidden, it keeps its text, and a live result goes on. */
export function WorkspacePage({ isShown }: { readonly isShown: boolean }) {
  const { client, context, currentContext, onContext, refresh, inbox } = useSession();
  const [sideWidth, setSideWidth] = useState(300);
  const editor = useRef<SqlEditor | null>(null);
  const [isEditorThere, setEditorThere] = useState(false);
  const runApart = useRef<(statement: string) => void>(() => {});
  const newWorksheet = useRef<() => void>(() => {});

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

  return (
    <div className="workspace-page" style={{ "--side": `${sideWidth}px` } as CSSProperties} hidden={!isShown}>
      <Explorer
        client={client}
        context={context}
        isShown={isShown}
        onRefresh={refresh}
        onRun={onRun}
        onInsert={onInsert}
        width={sideWidth}
        onWidth={setSideWidth}
      />
      <Workspace
        environment={environment}
        editor={editor}
        runApart={runApart}
        newWorksheet={newWorksheet}
        isShown={isShown}
        onEditor={onEditor}
      />
    </div>
  );
}
