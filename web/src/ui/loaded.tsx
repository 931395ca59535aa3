import type { ReactNode } from "react";
import type { Failure } from "../api/failures";
import { FailureNote } from "./failure-note";
import { Skeletons } from "./page";

interface LoadedProps<T> {
  /** The last answer; null before the first one. */
  readonly data: T | null;
  /** The failure of the last request, also while an older answer is shown. */
  readonly failure: Failure | null;
  /** Stands in for the content until the first answer. */
  readonly skeleton?: ReactNode;
  readonly children: (data: T) => ReactNode;
}

/** The content of an answer, the failure of the last request above it, and a skeleton until the first of both. */
export function Loaded<T>({ data, failure, skeleton = <Skeletons />, children }: LoadedProps<T>) {
  return (
    <>
      <FailureNote failure={failure} />
      {data !== null ? children(data) : failure === null ? skeleton : null}
    </>
  );
}
