/** Several answers that a page needs together. */

import type { Failure } from "../api/failures";
import type { Answer } from "./use-answer";

/** The first failure of answers. */
export function failureIn(answers: readonly Answer<unknown>[]): Failure | null {
  return answers.find(({ failure }) => failure !== null)?.failure ?? null;
}
