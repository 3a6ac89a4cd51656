/** Small parts that several pages use. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { hidden, interval, percent, short, shown } from "./show";

/** The value of a promise; the last value is kept until the next arrives. */
export function useAnswer<T>(ask: () => Promise<T>, on: unknown[]): { value?: T; error?: string } {
  const [state, setState] = useState<{ value?: T; error?: string }>({});
  useEffect(() => {
    let isCurrent = true;
    ask().then(
      (value) => isCurrent && setState({ value }),
      (error: Error) => isCurrent && setState({ error: error.message }),
    );
    return () => {
      isCurrent = false;
    };
  }, on);
  return state;
}

export function Failure({ text }: { text: string }) {
  return (
    <div class="failure" role="alert">
      {text}
    </div>
  );
}

export function Loading() {
  return (
    <div class="loading" role="status">
      Loading…
    </div>
  );
}

export function Copy({ text, label = "Copy", title }: { text: string; label?: string; title?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return (
    <button type="button" class="copy" onClick={copy} title={title} aria-label={done ? undefined : title} aria-live="polite">
      {done ? "Copied" : label}
    </button>
  );
}

/** The command that prints what the page shows. */
export function Command({ text }: { text: string }) {
  return (
    <footer class="command">
      <span class="prompt" aria-hidden="true">
        $
      </span>
      <code>{text}</code>
      <Copy text={text} title="Copy the command that prints the same" />
    </footer>
  );
}

export interface Scale {
  low: number;
  high: number;
  ticks: number[];
}

/** A scale with round ends around some values. */
export function scaleOf(values: (number | null | undefined)[], around0 = false): Scale {
  const known = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  let low = Math.min(...known, around0 ? 0 : Infinity);
  let high = Math.max(...known, around0 ? 0 : -Infinity);
  if (known.length === 0) [low, high] = [0, 1];
  if (!around0 && low >= 0 && high <= 1) {
    low = Math.min(low, 0);
  }
  if (high - low < 1e-9) high = low + 1;
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw) as number;
  low = Math.floor(low / step + 1e-9) * step;
  high = Math.ceil(high / step - 1e-9) * step;
  const ticks: number[] = [];
  for (let at = low; at <= high + step / 2; at += step) ticks.push(Math.round(at / step) * step);
  return { low, high, ticks };
}

const place = (scale: Scale, value: number): string =>
  `${(100 * (Math.min(Math.max(value, scale.low), scale.high) - scale.low)) / (scale.high - scale.low)}%`;
const length = (scale: Scale, low: number, high: number): string =>
  `${(100 * (high - low)) / (scale.high - scale.low)}%`;

/** A value with its interval on a scale; `mark` is chance, or no difference. */
export function Interval(props: {
  scale: Scale;
  value: number | null;
  low: number | null;
  high: number | null;
  mark?: number | null;
  kind?: string;
  label?: string;
}) {
  const { scale, value, low, high, mark, kind = "", label } = props;
  if (value === null) return <div class="iv" />;
  return (
    <div
      class={`iv ${kind}`}
      role="img"
      aria-label={`${label ?? ""} ${short(value)} ${interval(low, high)}`.trim()}
      title={`${short(value)} ${interval(low, high)}${mark ? `, chance ${short(mark, 2)}` : ""}`}
    >
      {scale.ticks.map((tick) => (
        <i class="tick" style={{ left: place(scale, tick) }} />
      ))}
      {mark !== null && mark !== undefined && <i class="mark" style={{ left: place(scale, mark) }} />}
      {low !== null && high !== null && (
        <i
          class="line"
          style={{ left: place(scale, low), width: length(scale, Math.max(low, scale.low), Math.min(high, scale.high)) }}
        />
      )}
      <i class="dot" style={{ left: place(scale, value) }} />
    </div>
  );
}

export function Axis({ scale, mark, named }: { scale: Scale; mark?: number | null; named?: string }) {
  return (
    <div class="iv axis" aria-hidden="true">
      {scale.ticks.map((tick) => (
        <span style={{ left: place(scale, tick) }}>{short(tick, 2)}</span>
      ))}
      {mark !== null && mark !== undefined && (
        <span class="named" style={{ left: place(scale, mark) }}>
          {named}
        </span>
      )}
    </div>
  );
}

/** A share as a thin bar with its number. */
export function Share({ value, of, kind = "" }: { value: number | null; of?: string; kind?: string }) {
  if (value === null) return null;
  return (
    <span class={`share ${kind}`} title={of}>
      <i>
        <b style={{ width: `${100 * value}%` }} />
      </i>
      {percent(value)}
    </span>
  );
}

/** How an item was answered: a sign, a colour and a word, so that no one depends on the colour. */
export const STATES: Record<string, { sign: string; word: string; kind: string }> = {
  r: { sign: "✓", word: "right", kind: "right" },
  w: { sign: "✗", word: "wrong", kind: "wrong" },
  p: { sign: "◐", word: "partly", kind: "partly" },
  u: { sign: "∅", word: "not parsed", kind: "unread" },
  m: { sign: "⚠", word: "missing", kind: "missing" },
  n: { sign: "", word: "scored", kind: "number" },
  ".": { sign: "·", word: "no score", kind: "none" },
  "": { sign: "", word: "not asked", kind: "none" },
};

export function State({ state, children }: { state: string; children?: ComponentChildren }) {
  const { sign, word, kind } = STATES[state] ?? STATES[""];
  return (
    <span class={`state ${kind}`}>
      {sign && <b aria-hidden="true">{sign}</b>}
      {children ?? word}
    </span>
  );
}

const MOST_SHOWN = 60_000;
const AROUND = 2_000;

/** Text of a model or a data set: only ever text nodes, with hidden characters shown. */
function nodes(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let last = 0;
  for (const match of text.matchAll(hidden)) {
    if (parts.length > 20_000) break;
    parts.push(text.slice(last, match.index));
    const name = shown(match[0]);
    parts.push(
      <i class="hid" title={`U+${match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`}>
        {name}
      </i>,
    );
    last = match.index + 1;
  }
  parts.push(text.slice(last));
  return parts;
}

export interface Mark {
  start: number;
  end: number;
  kind: string;
  title?: string;
}

/** A text with marked parts; if it is very long, only its beginning and the text around the marks. */
export function Text({ text, marks = [], kind = "" }: { text: string; marks?: Mark[]; kind?: string }) {
  const [isWhole, setWhole] = useState(false);
  const isCut = text.length > MOST_SHOWN && !isWhole;
  const pieces: ComponentChildren[] = [];
  let at = 0;
  const upTo = isCut ? MOST_SHOWN : text.length;
  const add = (end: number) => {
    if (end <= at) return;
    if (isCut && at >= upTo) {
      if (end - at > AROUND) pieces.push(<i class="gap">… {(end - at - AROUND).toLocaleString("en")} characters …</i>);
      pieces.push(...nodes(text.slice(Math.max(at, end - AROUND), end)));
    } else if (isCut && end > upTo) {
      pieces.push(...nodes(text.slice(at, upTo)));
      at = upTo;
      if (end < text.length) add(end);
    } else pieces.push(...nodes(text.slice(at, end)));
    at = end;
  };
  for (const mark of [...marks].sort((a, b) => a.start - b.start)) {
    if (mark.start < at) continue;
    add(mark.start);
    pieces.push(
      <mark class={mark.kind} title={mark.title}>
        {nodes(text.slice(mark.start, Math.min(mark.end, mark.start + 4 * AROUND)))}
      </mark>,
    );
    at = mark.end;
  }
  if (isCut && at >= upTo) {
    /* the rest is behind the button */
  } else add(isCut ? Math.max(upTo, at) : text.length);
  return (
    <>
      <pre class={`text ${kind}`} dir="auto">
        {pieces}
      </pre>
      {text.length > MOST_SHOWN && (
        <p class="cut">
          {isCut ? `The first ${MOST_SHOWN.toLocaleString("en")} of ` : "All "}
          {text.length.toLocaleString("en")} characters.{" "}
          <button type="button" class="quiet" onClick={() => setWhole(!isWhole)}>
            {isCut ? "Show all" : "Show less"}
          </button>
        </p>
      )}
    </>
  );
}



/** Rows of equal height, of which only those in view are in the document. */
export function Rows(props: {
  count: number;
  height: number;
  active: number;
  row: (index: number) => JSX.Element;
  label: string;
  columns: number;
  /** What is shown if there are no rows. */
  empty: string;
  head: JSX.Element;
  onActive: (index: number) => void;
  onOpen: (index: number) => void;
}) {
  const { count, height, active, row, label, head } = props;
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [size, setSize] = useState(600);
  const tall = Math.min(count * height, 12_000_000);
  const scale = count * height > tall ? (count * height) / tall : 1;
  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const measure = () => setSize(element.clientHeight);
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element || active < 0) return;
    const headSize = (element.querySelector(".head") as HTMLElement | null)?.offsetHeight ?? 0;
    const at = (active * height) / scale;
    const room = element.clientHeight - headSize;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at + height > element.scrollTop + room) element.scrollTop = at + height - room;
  }, [active, count]);
  const first = Math.max(0, Math.floor((top * scale) / height) - 6);
  const last = Math.min(count, Math.ceil((top * scale + size) / height) + 6);
  const keys = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor(size / height) - 2);
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      j: 1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -count,
      End: count,
    };
    if (event.key in steps && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      event.stopPropagation();
      props.onActive(Math.min(Math.max(active + steps[event.key], 0), count - 1));
    } else if (event.key === "Enter" && active >= 0) {
      event.stopPropagation();
      props.onOpen(active);
    }
  };
  const list: JSX.Element[] = [];
  const offset = top - (top * scale - first * height);
  for (let index = first; index < last; index++) list.push(row(index));
  return (
    <div
      class="rows"
      ref={box}
      role="grid"
      tabIndex={0}
      aria-label={label}
      aria-rowcount={count + 1}
      aria-colcount={props.columns}
      aria-activedescendant={active >= 0 && active >= first && active < last ? `row-${active}` : undefined}
      onScroll={() => setTop((box.current as HTMLDivElement).scrollTop)}
      onKeyDown={keys}
    >
      {head}
      <div class="tall" style={{ height: `${tall}px` }}>
        <div class="window" style={{ transform: `translateY(${offset}px)` }}>
          {list}
        </div>
      </div>
      {count === 0 && <p class="empty">{props.empty}</p>}
    </div>
  );
}
