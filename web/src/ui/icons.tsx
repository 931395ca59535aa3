import type { ReactNode } from "react";

const DRAWINGS = {
  play: <path d="M4.5 2.8v10.4l8.5-5.2z" fill="currentColor" stroke="none" />,
  stop: <rect x="3.5" y="3.5" width="9" height="9" rx="1.5" fill="currentColor" stroke="none" />,
  write: <path d="M9.5 3.5 12.5 6.5 6 13H3v-3zM8 14h5.5" />,
  pause: <path d="M5.5 3.5v9M10.5 3.5v9" />,
  refresh: <path d="M13 8a5 5 0 1 1-1.6-3.7M13 2.5v2.8h-2.8" />,
  chevron: <path d="M6 3.5 10.5 8 6 12.5" />,
  tail: <path d="M8 2.5v8M4.5 7.5 8 11l3.5-3.5M3.5 13.5h9" />,
  clear: <path d="M3.5 4.5h9M6.5 4.5V3h3v1.5M4.8 4.5l.5 8.5h5.4l.5-8.5" />,
  download: <path d="M8 2.5v7M5 6.8 8 9.8l3-3M3 12.5h10" />,
  close: <path d="m4 4 8 8M12 4l-8 8" />,
  store: (
    <>
      <ellipse cx="8" cy="4" rx="4.5" ry="1.8" />
      <path d="M3.5 4v8c0 1 2 1.8 4.5 1.8s4.5-.8 4.5-1.8V4M3.5 8c0 1 2 1.8 4.5 1.8s4.5-.8 4.5-1.8" />
    </>
  ),
  entity: <path d="M3 4.5h10M3 8h10M3 11.5h6" />,
  folder: <path d="M2.5 4.5v8h11v-6.5h-6L6 4.5z" />,
  sql: <path d="M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5" />,
  queries: <path d="M2 8h2.5L6.5 3l3 10 2-5H14" />,
  lineage: (
    <>
      <circle cx="3.5" cy="4" r="1.6" />
      <circle cx="3.5" cy="12" r="1.6" />
      <circle cx="12.5" cy="8" r="1.6" />
      <path d="M5 4.4c3 .6 3.4 2.9 5.9 3.4M5 11.6c3-.6 3.4-2.9 5.9-3.4" />
    </>
  ),
  catalog: <path d="M3 3.5h10v9H3zM3 6.7h10M6.5 6.7v5.8" />,
  access: (
    <>
      <circle cx="5.5" cy="8" r="2.6" />
      <path d="M8.1 8h5.4v2.4M11 8v2" />
    </>
  ),
  graphql: <path d="M8 2.2 13 5.1v5.8L8 13.8 3 10.9V5.1zM3.4 10.6 8 2.6l4.6 8z" />,
  resources: <path d="M3 3.5h10v3.2H3zM3 9.3h10v3.2H3zM5 5.1h.6M5 10.9h.6" />,
  warning: <path d="M8 2.8 14 13H2zM8 6.8v3M8 11.4v.2" />,
  check: <path d="m3.5 8.5 3 3 6-7" />,
  search: <path d="M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3 13.5 13.5" />,
  copy: <path d="M6 6h7v7H6zM4 10H3V3h7v1" />,
  save: <path d="M3 3h8l2 2v8H3zM5.5 13V9h5v4M5.5 3v2.5h4" />,
  undo: <path d="M5.5 3 2.8 5.8l2.7 2.7M3 5.8h6a3.6 3.6 0 0 1 0 7.2H6" />,
  up: <path d="M8 13V3.5M4 7.2 8 3.2l4 4" />,
  down: <path d="M8 3v9.5M4 8.8l4 4 4-4" />,
  plus: <path d="M8 3.2v9.6M3.2 8h9.6" />,
  "theme-system": (
    <>
      <circle cx="8" cy="8" r="5.2" />
      <path d="M8 2.8v10.4A5.2 5.2 0 0 0 8 2.8z" fill="currentColor" />
    </>
  ),
  "theme-light": (
    <>
      <circle cx="8" cy="8" r="2.8" />
      <path d="M8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M12.4 3.6l-1 1M4.6 11.4l-1 1" />
    </>
  ),
  "theme-dark": <path d="M13 9.6A5.4 5.4 0 0 1 6.4 3 5.4 5.4 0 1 0 13 9.6z" />,
  "sign-out": <path d="M6.5 3h-3v10h3M10 5l3 3-3 3M6 8h7" />,
} satisfies Readonly<Record<string, ReactNode>>;

export type IconName = keyof typeof DRAWINGS;

/** Decoration only: the control around it has the name. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
      {DRAWINGS[name]}
    </svg>
  );
}

export function Mark() {
  return (
    <svg className="mark" viewBox="0 0 24 24" aria-hidden="true">
      <rect width="24" height="24" rx="6" className="mark-field" />
      <g fill="none" stroke="#fff" strokeWidth="2" strokeLinecap="round">
        <path d="M4.5 8.2c2.5-1.9 5-1.9 7.5 0s5 1.9 7.5 0" />
        <path d="M4.5 12.4c2.5-1.9 5-1.9 7.5 0s5 1.9 7.5 0" opacity=".75" />
        <path d="M4.5 16.6c2.5-1.9 5-1.9 7.5 0s5 1.9 7.5 0" opacity=".5" />
      </g>
    </svg>
  );
}
