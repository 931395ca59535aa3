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
  "sign-out": <path d="M6.5 3h-3v10h3M10 5l3 3-3 3M6 8h7" />,
} satisfies Readonly<Record<string, ReactNode>>;

/** Decoration only: the control around it has the name. */
export function Icon({ name }: { readonly name: keyof typeof DRAWINGS }) {
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
