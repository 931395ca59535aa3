/** The editor's looks, in the page's own colours: they follow light and dark by themselves. */

import { HighlightStyle } from "@codemirror/language";
import { EditorView } from "@codemirror/view";
import { tags } from "@lezer/highlight";

export const highlighting = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--syntax-keyword)", fontWeight: "600" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--syntax-type)" },
  { tag: tags.string, color: "var(--syntax-string)" },
  // A quoted identifier is a name, not a text.
  { tag: tags.special(tags.string), color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--syntax-number)" },
  { tag: [tags.lineComment, tags.blockComment], color: "var(--syntax-comment)", fontStyle: "italic" },
  { tag: tags.operator, color: "var(--text-soft)" },
]);

/** CodeMirror adds a style element, which the Content-Security-Policy allows by the nonce of the page. */
const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";

export const editorTheme = [
  EditorView.cspNonce.of(nonce),
  EditorView.theme({
    "&": { height: "100%", fontSize: "13px", backgroundColor: "var(--surface)", color: "var(--text)" },
    "&.cm-focused": { outline: "none" },
    ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.6" },
    ".cm-content": { padding: "10px 0", caretColor: "var(--accent)" },
    ".cm-line": { padding: "0 14px 0 10px", borderLeft: "2px solid transparent" },
    ".cm-line.cm-activeStatement": { borderLeftColor: "var(--accent)" },
    ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--text-faint)", border: "none" },
    ".cm-lineNumbers .cm-gutterElement": { padding: "0 6px 0 12px", minWidth: "36px" },
    ".cm-activeLine": { backgroundColor: "var(--line-tint)" },
    ".cm-activeLineGutter": { backgroundColor: "transparent", color: "var(--text)" },
    "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
      backgroundColor: "var(--selection)",
    },
    ".cm-cursor": { borderLeftColor: "var(--accent)", borderLeftWidth: "2px" },
    ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": {
      backgroundColor: "var(--selection)",
      outline: "1px solid var(--border-strong)",
    },
    ".cm-selectionMatch": { backgroundColor: "var(--line-tint)" },
    ".cm-panels": {
      backgroundColor: "var(--surface-sunk)",
      color: "var(--text)",
      borderColor: "var(--border)",
    },
    ".cm-tooltip": {
      backgroundColor: "var(--surface-raised)",
      color: "var(--text)",
      border: "1px solid var(--border-strong)",
      borderRadius: "6px",
      boxShadow: "var(--shadow)",
      overflow: "hidden",
    },
    ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", fontSize: "12px" },
    ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 10px" },
    ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": {
      backgroundColor: "var(--accent)",
      color: "var(--on-accent)",
    },
    ".cm-diagnostic-error": { borderLeftColor: "var(--danger)", whiteSpace: "pre-wrap", padding: "6px 10px" },
    ".cm-lintRange-error": {
      backgroundImage: "none",
      textDecoration: "underline wavy var(--danger)",
      textDecorationSkipInk: "none",
      textUnderlineOffset: "3px",
      backgroundColor: "var(--danger-tint)",
    },
    ".cm-gutter-lint": { width: "14px" },
    ".cm-gutter-lint .cm-gutterElement": { padding: "4px 0 0 4px" },
    ".cm-lint-marker": { width: "8px", height: "8px" },
    ".cm-lint-marker-error": { content: "none", backgroundColor: "var(--danger)", borderRadius: "50%" },
  }),
];
