import { useCallback, useEffect, useState } from "react";
import { isServerThere } from "./api/statements";

const ASK_EVERY_MS = 2000;

/** True if the server answers. After a failure, it polls until the server answers. */
export function useReachability(onReturn: () => void) {
  const [isAway, setAway] = useState(false);
  const reportAway = useCallback(() => setAway(true), []);

  useEffect(() => {
    if (!isAway) return;
    let isStopped = false;
    const timer = setInterval(async () => {
      if (!(await isServerThere()) || isStopped) return;
      setAway(false);
      onReturn();
    }, ASK_EVERY_MS);
    return () => {
      isStopped = true;
      clearInterval(timer);
    };
  }, [isAway, onReturn]);

  return { isAway, reportAway };
}
