import { useState } from "react";
import { Dialog } from "../../ui/dialog";
import { Icon } from "../../ui/icons";
import { linkOf } from "./share";
import type { Worksheet } from "./worksheets";

/** The link to a copy of a worksheet. */
export function ShareDialog({ sheet, onClose }: { readonly sheet: Worksheet; readonly onClose: () => void }) {
  const [isCopied, setCopied] = useState(false);
  const link = linkOf(location.origin, sheet);
  if (link === null) {
    return (
      <Dialog title={`Share ${sheet.name}`} onClose={onClose}>
        <p>The worksheet is too long for a link. Split it, or send its text as a file.</p>
      </Dialog>
    );
  }
  return (
    <Dialog
      title={`Share ${sheet.name}`}
      onClose={onClose}
      actions={
        <button
          type="button"
          className="primary"
          onClick={() => void navigator.clipboard.writeText(link).then(() => setCopied(true))}
        >
          <Icon name="copy" /> Copy the link
        </button>
      }
    >
      <p>
        The link contains the text, so that secrets in it would be shared too. Whoever opens it and signs in
        here gets a copy, which runs with their own role; your later changes are not in it.
      </p>
      <label className="field">
        Link
        <input readOnly value={link} onFocus={(event) => event.target.select()} />
      </label>
      <p role="status" className="note">
        {isCopied ? "Copied." : ""}
      </p>
    </Dialog>
  );
}
