/** Changes that the server pushes to this page, which renew cached answers. While nothing is pushed, the answers are polled. */

import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState } from "react";
import { ChangesDocument, FindingsDocument, ProgressDocument } from "../api/operations";
import type { Push } from "../api/push";
import { useSession } from "../session-context";
import { COLLECTED_MS, collected, relationsOf } from "./renewal";

/** Pages poll at this interval while nothing is pushed. */
export const POLL_EVERY_MS = 10_000;

/** First part of the keys of answers: what a refresh of the session asks for again. */
export const ANSWER = "answer";

interface Feed {
  /** True while the server pushes changes. */
  readonly isLive: boolean;
  /** Null while the document is hidden: nothing is pushed then. */
  readonly push: Push | null;
}

const FeedContext = createContext<Feed>({ isLive: false, push: null });

export function FeedProvider({ children }: { readonly children: ReactNode }) {
  const { client, context } = useSession();
  const { role } = context;
  const answers = useQueryClient();
  const isVisible = useVisibility();
  const [push, setPush] = useState<Push | null>(null);
  const [isLive, setLive] = useState(false);

  useEffect(() => {
    if (!isVisible) return;
    const opened = client.push(role === undefined ? {} : { role });
    const changes = collected<string>((relations) => {
      void answers.invalidateQueries({
        predicate: ({ meta }) => relationsIn(meta).some((relation) => relations.has(relation)),
      });
    }, COLLECTED_MS);
    let isPushed = false;
    const stop = opened.subscribe(
      ChangesDocument,
      {},
      {
        onEvent: ({ changes: changed }) => {
          isPushed = true;
          setLive(true);
          // The first event, also after each loss of the connection, is empty: what was read before it may have changed unnoticed.
          if (changed.length > 0) changes.add(relationsOf(changed.map(({ kind }) => kind)));
          else
            void answers.invalidateQueries({
              predicate: ({ meta, state }) => relationsIn(meta).length > 0 || state.status === "error",
            });
        },
        onAway: () => {
          if (isPushed) {
            // Reports at once if the server is away.
            client.version().catch(() => {});
          }
          isPushed = false;
          setLive(false);
        },
      },
    );
    setPush(opened);
    return () => {
      stop();
      changes.stop();
      opened.close();
      setPush(null);
      setLive(false);
    };
  }, [client, role, answers, isVisible]);

  const value = useMemo(() => ({ isLive, push }), [isLive, push]);
  return <FeedContext value={value}>{children}</FeedContext>;
}

export function useFeed(): Feed {
  return useContext(FeedContext);
}

/** Calls `onProgress` when metrics or findings change, of these queries or of all (null); never if `isEnabled` is false. */
export function useProgress(ids: readonly string[] | null, onProgress: () => void, isEnabled: boolean): void {
  const { push } = useFeed();
  const key = JSON.stringify(ids);
  useEffect(() => {
    if (push === null || !isEnabled) return;
    const variables = { ids: JSON.parse(key) as readonly string[] | null };
    // The first event has all rows.
    const butFirst = () => {
      let isFirst = true;
      return {
        onEvent: () => {
          if (!isFirst) onProgress();
          isFirst = false;
        },
      };
    };
    const stopProgress = push.subscribe(ProgressDocument, variables, butFirst());
    const stopFindings = push.subscribe(FindingsDocument, variables, butFirst());
    return () => {
      stopProgress();
      stopFindings();
    };
  }, [push, key, onProgress, isEnabled]);
}

/** The system relations that an answer was read from, in the `meta` of its query; none if no change renews it. */
function relationsIn(meta: Readonly<Record<string, unknown>> | undefined): readonly string[] {
  const { relations } = meta ?? {};
  return Array.isArray(relations) ? relations : [];
}

function useVisibility(): boolean {
  const [isVisible, setVisible] = useState(document.visibilityState === "visible");
  useEffect(() => {
    const onChange = () => setVisible(document.visibilityState === "visible");
    document.addEventListener("visibilitychange", onChange);
    return () => document.removeEventListener("visibilitychange", onChange);
  }, []);
  return isVisible;
}
