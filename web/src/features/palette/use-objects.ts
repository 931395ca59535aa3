import { useMemo } from "react";
import type { Failure } from "../../api/failures";
import {
  COMPUTE_POOLS,
  DATABASES,
  FUNCTIONS,
  QUERIES,
  RELATIONS,
  SCHEMAS,
  STORES,
} from "../../catalog/lists";
import { failureIn } from "../../data/answers";
import { useList } from "../../data/use-list";
import type { Objects } from "./items";

/** The objects of the palette: of each list, the rows that are here. */
export function useObjects(): { readonly objects: Objects; readonly failure: Failure | null } {
  const databases = useList(DATABASES, {});
  const schemas = useList(SCHEMAS, {});
  const relations = useList(RELATIONS, {});
  const stores = useList(STORES, {});
  const queries = useList(QUERIES, {});
  const pools = useList(COMPUTE_POOLS, {});
  const functions = useList(FUNCTIONS, {});
  const objects = useMemo(
    () => ({
      databases: databases.data ?? [],
      schemas: schemas.data ?? [],
      relations: relations.data ?? [],
      stores: stores.data ?? [],
      queries: queries.data ?? [],
      pools: pools.data ?? [],
      functions: functions.data ?? [],
    }),
    [databases.data, schemas.data, relations.data, stores.data, queries.data, pools.data, functions.data],
  );
  return { objects, failure: failureIn([databases, schemas, relations, stores, queries, pools, functions]) };
}
