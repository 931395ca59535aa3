/** The range of a chart's values: from zero, with room above the largest, and below the smallest if it is negative. */
export function chartRange(min: number | null, max: number | null): [number, number] {
  const above = max === null || max <= 0 ? 0 : max * 1.1;
  const below = min === null || min >= 0 ? 0 : min * 1.1;
  return [below, above === 0 && below === 0 ? 1 : above];
}
