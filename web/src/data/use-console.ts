import { useQuery } from "@tanstack/react-query";
import type { ConsoleParts } from "../api/statements";
import { useSession } from "../session-context";

/** Optional parts of the console, asked for once; null before the answer. */
export function useConsole(): ConsoleParts | null {
  const { client } = useSession();
  const { data } = useQuery({
    queryKey: ["console"],
    queryFn: () => client.console(),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return data ?? null;
}
