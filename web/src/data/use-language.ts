import { useQuery } from "@tanstack/react-query";
import type { Language } from "../api/wire";
import { useSession } from "../session-context";

/** The server's language, asked for once; null before its answer, and if the server does not answer. */
export function useLanguage(): Language | null {
  const { client } = useSession();
  const { data } = useQuery({
    queryKey: ["language"],
    queryFn: () => client.language(),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return data ?? null;
}
