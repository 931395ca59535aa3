/** A state in colour and in words. */
export function State({ state, label }: { readonly state: string; readonly label?: string }) {
  return (
    <span className="state">
      <span className={`dot query-${state}`} aria-hidden="true" />
      {(label ?? state).replaceAll("_", " ")}
    </span>
  );
}
