import type { ResultSet } from "../../api/statements";
import type { PropertyFacts } from "../../api/wire";
import { literal, system } from "../../data/select";
import { useAnswer } from "../../data/use-answer";
import { useLanguage } from "../../data/use-language";

/** A store type is CONFLUENT_KAFKA in statements, and ConfluentKafka in listings. */
const lettersOf = (type: string) => type.toLowerCase().replaceAll("_", "");
const readType = (result: ResultSet) => result.rows[0]?.[0] ?? null;

/** The properties of statements about a store of its type; none before the answer. */
export function useStoreProperties(store: string): readonly PropertyFacts[] {
  const language = useLanguage();
  const statement = `SELECT store_type FROM ${system("stores")} WHERE name = ${literal(store)}`;
  const { data: type } = useAnswer({ statement, read: readType });
  return (language?.properties ?? []).filter(
    ({ storeType }) => storeType !== "" && lettersOf(storeType) === lettersOf(type ?? ""),
  );
}
