import { type RefObject, useEffect, useLayoutEffect } from "react";
import type { RowSource } from "./rows";

/** Distance from the end at which the view counts as being there. */
const TAIL_REACH_PX = 4;

interface TailOptions {
  readonly scroller: RefObject<HTMLDivElement | null>;
  readonly source: RowSource;
  readonly isFollowing: boolean;
  readonly onFollow: (isFollowing: boolean) => void;
}

/** Keeps the end in sight while following, and finds out when a reader leaves it or comes back. */
export function useTail({ scroller, source, isFollowing, onFollow }: TailOptions): void {
  const { length, dropped } = source;

  // biome-ignore lint/correctness/useExhaustiveDependencies: new rows are the reason to scroll.
  useLayoutEffect(() => {
    if (isFollowing && scroller.current !== null) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [scroller, isFollowing, length, dropped]);

  useEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    const leave = (event: WheelEvent) => {
      if (event.deltaY < 0) onFollow(false);
    };
    let before = { top: element.scrollTop, height: element.scrollHeight };
    const settle = () => {
      const now = { top: element.scrollTop, height: element.scrollHeight };
      const isAtEnd = now.height - now.top - element.clientHeight < TAIL_REACH_PX;
      // Only a reader moves upwards in content that did not shrink.
      if (!isAtEnd && now.top < before.top && now.height >= before.height) onFollow(false);
      else if (isAtEnd && now.height > element.clientHeight) onFollow(true);
      before = now;
    };
    element.addEventListener("wheel", leave, { passive: true });
    element.addEventListener("scroll", settle, { passive: true });
    return () => {
      element.removeEventListener("wheel", leave);
      element.removeEventListener("scroll", settle);
    };
  }, [scroller, onFollow]);
}
