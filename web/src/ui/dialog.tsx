import { type ReactNode, useEffect, useId, useRef } from "react";
import { Icon } from "./icons";

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ReactNode;
  readonly actions?: ReactNode;
}

/** A modal on the browser's own dialog element: focus stays inside, Esc closes. Mounted means open. */
export function Dialog({ title, onClose, children, actions }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const titleId = useId();

  useEffect(() => {
    element.current?.showModal();
  }, []);

  return (
    <dialog ref={element} className="dialog" aria-labelledby={titleId} onClose={onClose}>
      <header className="dialog-head">
        <h2 id={titleId}>{title}</h2>
        <button type="button" className="ghost" aria-label="Close" onClick={() => element.current?.close()}>
          <Icon name="close" />
        </button>
      </header>
      <div className="dialog-body">{children}</div>
      {actions === undefined ? null : <footer className="dialog-actions">{actions}</footer>}
    </dialog>
  );
}
