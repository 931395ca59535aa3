import { type KeyboardEvent, type PointerEvent, useRef } from "react";

interface SplitterProps {
  readonly label: string;
  readonly orientation: "vertical" | "horizontal";
  readonly size: number;
  readonly min: number;
  readonly max: number;
  readonly onResize: (size: number) => void;
}

const KEY_STEP = 24;

/** Drags the size of the pane before it; the arrow keys do the same. */
export function Splitter({ label, orientation, size, min, max, onResize }: SplitterProps) {
  const origin = useRef<{ readonly at: number; readonly size: number } | null>(null);
  const isVertical = orientation === "vertical";
  const resize = (next: number) => onResize(Math.min(max, Math.max(min, next)));

  function start(event: PointerEvent<HTMLDivElement>): void {
    event.currentTarget.setPointerCapture(event.pointerId);
    origin.current = { at: isVertical ? event.clientX : event.clientY, size };
  }

  function drag(event: PointerEvent<HTMLDivElement>): void {
    if (origin.current === null) return;
    const moved = (isVertical ? event.clientX : event.clientY) - origin.current.at;
    resize(origin.current.size + moved);
  }

  function step(event: KeyboardEvent<HTMLDivElement>): void {
    const [less, more] = isVertical ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
    if (event.key !== less && event.key !== more) return;
    event.preventDefault();
    resize(size + (event.key === more ? KEY_STEP : -KEY_STEP));
  }

  return (
    <div
      className={`splitter ${orientation}`}
      role="separator"
      tabIndex={0}
      aria-label={label}
      aria-orientation={orientation}
      aria-valuenow={Math.round(size)}
      aria-valuemin={min}
      aria-valuemax={max}
      onPointerDown={start}
      onPointerMove={drag}
      onPointerUp={() => {
        origin.current = null;
      }}
      onKeyDown={step}
    />
  );
}
