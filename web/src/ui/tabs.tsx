import { type KeyboardEvent, type ReactNode, useEffect, useId } from "react";

interface TabsProps<Id extends string> {
  readonly label: string;
  readonly tabs: Readonly<Record<Id, ReactNode>>;
  readonly chosen: Id;
  readonly onChoose: (id: Id) => void;
  /** The content of the chosen tab. */
  readonly children: ReactNode;
}

/** Tabs by the pattern of ARIA: the arrow keys change between them. */
export function Tabs<Id extends string>({ label, tabs, chosen, onChoose, children }: TabsProps<Id>) {
  const base = useId();
  const ids = Object.keys(tabs) as Id[];

  // In a narrow window the tabs scroll, and an address may choose one that is out of sight.
  useEffect(() => {
    const tab = document.getElementById(`${base}-${chosen}`);
    if (tab?.parentElement == null) return;
    const observer = new ResizeObserver(() => tab.scrollIntoView({ block: "nearest", inline: "nearest" }));
    observer.observe(tab.parentElement);
    return () => observer.disconnect();
  }, [base, chosen]);

  function onKeyDown(event: KeyboardEvent<HTMLDivElement>): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const next = ids[(ids.indexOf(chosen) + step + ids.length) % ids.length];
    if (step === 0 || next === undefined) return;
    event.preventDefault();
    onChoose(next);
    document.getElementById(`${base}-${next}`)?.focus();
  }

  return (
    <>
      <div className="page-tabs" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
        {ids.map((id) => (
          <button
            key={id}
            id={`${base}-${id}`}
            type="button"
            role="tab"
            aria-selected={id === chosen}
            aria-controls={`${base}-panel`}
            tabIndex={id === chosen ? 0 : -1}
            onClick={() => onChoose(id)}
          >
            {tabs[id]}
          </button>
        ))}
      </div>
      <div className="tab-panel" id={`${base}-panel`} role="tabpanel" aria-labelledby={`${base}-${chosen}`}>
        {children}
      </div>
    </>
  );
}
