/** Items × formats: one row for each doc, one cell for each format. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isServed } from "./data";
import { filtered, has, quote, sorted, toggled, token, type Sort } from "./filter";
import { type Items, loadTexts, openItems } from "./items";
import { go, ids, link, type Route } from "./route";
import { command, count, counted, plain, reason, short } from "./show";
import type { Run, Runs } from "./types";
import { Command, Failure, Loading, Rows, STATES } from "./ui";

const ROW_HEIGHT = 34;
const POLL_MS = 2000;

/** The runs that an address names; if it names none, all runs with the task. */
export function runsOf(all: Runs, route: Route, task: string): Run[] {
  const wanted = ids(route.query.get("runs"));
  const named = wanted.map((id) => all.runs.find((run) => run.id === id)).filter((run): run is Run => run !== undefined);
  if (named.length) return named;
  return all.runs.filter((run) => run.results.some((result) => result.task === task));
}

/** The items of a task. First words arrive chunk by chunk; those of a running run as they are written. */
export function useItems(runs: Run[], task: string): { items?: Items; error?: string; version: number } {
  const [state, setState] = useState<{ items?: Items; error?: string }>({});
  const [version, setVersion] = useState(0);
  const key = runs.map((run) => `${run.id}${run.kind}`).join(".");
  useEffect(() => {
    let isCurrent = true;
    let timer = 0;
    const start = async () => {
      try {
        const items = await cached(runs, task, key);
        if (!isCurrent) return;
        setState({ items });
        const changed = () => isCurrent && setVersion((at) => at + 1);
        const follow = async () => {
          await loadTexts(items, changed, () => isCurrent);
          if (isCurrent && isServed && runs.some((run) => run.kind === "live")) timer = window.setTimeout(follow, POLL_MS);
        };
        await follow();
      } catch (error) {
        if (isCurrent) setState({ error: (error as Error).message });
      }
    };
    start();
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [key, task]);
  return { ...state, version };
}

let last: { key: string; items: Items } | undefined;

async function cached(runs: Run[], task: string, key: string): Promise<Items> {
  const name = `${task}/${key}`;
  if (last?.key !== name) last = { key: name, items: await openItems(runs, task) };
  return last.items;
}

/** The docs in the order of the last list, for stepping through them one by one. */
export const order: { task: string; rows: number[] } = { task: "", rows: [] };

function parseSort(value: string | null): Sort {
  return { by: (value ?? "").replace(/^-/, ""), down: value === "flips" || value === "length" || (value ?? "").startsWith("-") };
}

export function ItemsPage({ route, all }: { route: Route; all: Runs }) {
  const task = route.parts[0] ?? "";
  const runs = runsOf(all, route, task);
  const { items, error, version } = useItems(runs, task);
  const query = route.query.get("q") ?? "";
  const sortBy = route.query.get("sort");
  const [typed, setTyped] = useState(query);
  useEffect(() => setTyped(query), [query]);
  const typing = useRef(0);
  const runIds = route.query.get("runs");
  const set = (changes: Record<string, string | null>, replace = true) =>
    go(link("items", [task], { runs: runIds, q: query, sort: sortBy, at: null, ...changes }), replace);
  const list = useMemo(() => {
    if (!items) return { rows: [], unknown: [] as string[] };
    const found = filtered(items, query);
    return { rows: sorted(items, found.rows, parseSort(sortBy)), unknown: found.unknown };
  }, [items, query, sortBy, items?.version, version]);
  order.task = `${task}/${runIds ?? ""}`;
  order.rows = list.rows;
  const at = Number(route.query.get("at") ?? -1);
  const [active, setActive] = useState(-1);
  useEffect(() => setActive(at >= 0 && items ? list.rows.indexOf(items.docs.indexOf(at)) : -1), [at, items, query, sortBy]);
  if (error) return <main><Failure text={error} /></main>;
  if (!items) return <main><Loading /></main>;
  if (items.columns.length === 0) return <main><Failure text={`No run here has a task ${task}.`} /></main>;
  const open = (index: number) => {
    const doc = items.docs[list.rows[index]];
    if (doc === undefined) return;
    go(link("items", [task], { runs: runIds, q: query, sort: sortBy, at: String(doc) }), true);
    go(link("item", [task, doc], { runs: runIds, q: query, sort: sortBy }));
  };
  const type = (value: string) => {
    setTyped(value);
    clearTimeout(typing.current);
    typing.current = window.setTimeout(() => set({ q: value }), 120);
  };
  const sort = parseSort(sortBy);
  const order_ = (by: string) => (sort.by === by ? (sortBy?.startsWith("-") || by === "flips" ? "" : `-${by}`) : by);
  const isLive = runs.some((run) => run.kind === "live");
  const isFlips = query.split(" ").includes("flips");
  const flipping = items.columns.length > 1 ? countFlips(items) : 0;
  return (
    <main class="items-page">
      <header class="top">
        <h1>{plain(task)}</h1>
        <p class="facts">
          {counted(items.keys.length, "item")}
          {items.columns.length > 1 && ` · ${counted(flipping, "item")} right under some, not under others`}
          {isLive && ` · ${runs.some((run) => run.running) ? "running" : "unfinished"}`}
        </p>
        <span class="chooser">
          {items.columns.length > 1 && (
            <>
              <button type="button" class={isFlips ? "button on" : "button quiet"} aria-pressed={isFlips}
                onClick={() => set({ q: isFlips ? query.split(" ").filter((word) => word !== "flips").join(" ") : `${query} flips`.trim() })}>
                Only differing
              </button>
              <a class="button quiet" href={link("compare", [], { runs: runs.map((run) => run.id).join("."), task })}>Compare</a>
            </>
          )}
        </span>
      </header>
      {items.columns.filter((column) => column.problem).map((column) => (
        <Failure text={`${column.label}: ${column.problem} Scores are shown without texts.`} />
      ))}
      {items.columns.some((column) => column.rest > 0) && (
        <Failure text={`The last line of ${items.columns.filter((column) => column.rest > 0).map((column) => column.label).join(", ")} is not complete: the file was cut off, or is still being written. All lines before it are shown.`} />
      )}
      <div class="query">
        <input id="search" type="search" value={typed} spellcheck={false} aria-label="Filter items"
          placeholder={`Filter: words, ${token(items.columns[0].label, "wrong")}, flips, length>500 …`}
          onInput={(event) => type(event.currentTarget.value)} />
        <span class="facts" role="status">
          {list.rows.length === items.keys.length ? "" : `${count(list.rows.length)} of ${count(items.keys.length)}`}
        </span>
        {query && <button type="button" class="quiet" onClick={() => set({ q: "" })}>Clear</button>}
      </div>
      {list.unknown.length > 0 && <p class="note">Not understood and ignored: {list.unknown.join(" ")}. Press ? for all filters.</p>}
      <Facets items={items} rows={list.rows} query={query} toggle={(key, value) => set({ q: toggled(query, key, value) })} version={version} />
      <Table items={items} rows={list.rows} active={active} setActive={setActive} open={open}
        sort={sort} setSort={(by) => set({ sort: order_(by) })} query={query}
        toggle={(key, value) => set({ q: toggled(query, key, value) })} label={`Items of ${task}`} />
      <Command text={commandOf(runs, task, items)} />
    </main>
  );
}

function commandOf(runs: Run[], task: string, items: Items): string {
  const paths = runs.map((run) => run.path);
  if (runs.some((run) => run.kind === "live")) return command("lm-eval", "view", ...paths);
  if (items.columns.length > 1) return command("lm-eval", "compare", ...paths, "--tasks", task, "--flips");
  return command("lm-eval", "preview", items.columns[0].result.name);
}

function countFlips(items: Items): number {
  let found = 0;
  for (let row = 0; row < items.keys.length; row++) if (items.flips(row) > 0) found++;
  return found;
}

const emptyText = (items: Items): string => (items.keys.length ? "No item fits this filter." : "Nothing has been answered yet.");

function Table(props: {
  items: Items;
  rows: number[];
  active: number;
  setActive: (index: number) => void;
  open: (index: number) => void;
  sort: Sort;
  setSort: (by: string) => void;
  query: string;
  toggle: (key: string, value: string) => void;
  label: string;
}) {
  const { items, rows, active, sort } = props;
  const several = items.columns.length > 1;
  const isNarrow = useNarrow();
  const digits = String(Math.max(0, ...items.docs.slice(-1))).length;
  const docWidth = Math.max(52, 24 + 9 * digits);
  const widths = [`${docWidth}px`, ...(several ? ["76px"] : []), "minmax(180px, 3fr)", "minmax(80px, 1fr)", `repeat(${items.columns.length}, minmax(112px, 1.4fr))`];
  if (isNarrow) {
    const layout = { gridTemplateColumns: `${Math.max(40, 16 + 9 * digits)}px minmax(110px, 1fr) repeat(${items.columns.length}, 46px)`, minWidth: `${160 + 46 * items.columns.length}px` };
    return <NarrowTable {...props} layout={layout} />;
  }
  const layout = { gridTemplateColumns: widths.join(" "), minWidth: `${docWidth + (several ? 76 : 0) + 260 + 112 * items.columns.length}px`, "--doc": `${docWidth}px` };
  const heading = (by: string, text: string, extra = "") => (
    <div role="columnheader" class={`cell ${extra}`} aria-sort={sort.by === by ? (sort.down ? "descending" : "ascending") : "none"}>
      <button type="button" onClick={() => props.setSort(by)} title={`Sort by ${text}`}>
        {plain(text)}
        {sort.by === by && <i aria-hidden="true">{sort.down ? "↓" : "↑"}</i>}
      </button>
    </div>
  );
  const head = (
    <div class={`row head ${items.columns.some((one) => one.heading[0]) ? "double" : ""}`} role="row" aria-rowindex={1} style={layout}>
      {heading("doc", "Doc", "num")}
      {several && heading("flips", "Flips")}
      <div role="columnheader" class="cell question">Question</div>
      <div role="columnheader" class="cell">Gold</div>
      {items.columns.map((column, at) => (
        <div role="columnheader" class="cell" aria-sort={sort.by === column.label ? (sort.down ? "descending" : "ascending") : "none"}>
          {items.columns.some((one) => one.heading[0]) && <small title={column.heading[0]}>{plain(column.heading[0])}</small>}
          <button type="button" onClick={() => props.setSort(column.label)} title={`Sort by ${column.label}`}>
            {plain(column.heading[1])}
            {sort.by === column.label && <i aria-hidden="true">{sort.down ? "↓" : "↑"}</i>}
          </button>
          <Tally items={items} column={at} query={props.query} toggle={props.toggle} />
        </div>
      ))}
    </div>
  );
  const row = (index: number) => {
    const at = rows[index];
    const flips = several ? items.flips(at) : 0;
    return (
      <div
        id={`row-${index}`}
        class={`row ${index === active ? "active" : ""}`}
        role="row"
        aria-rowindex={index + 2}
        aria-selected={index === active}
        style={layout}
        onClick={() => props.open(index)}
      >
        <div role="gridcell" class="cell num">{items.docs[at]}</div>
        {several && <div role="gridcell" class="cell flips">{flips > 0 && <span class={`flip f${Math.min(3, Math.ceil(flips))}`} title="Formats that disagree with the others">{flips >= 1 ? flips : short(flips, 1)}</span>}</div>}
        <div role="gridcell" class="cell question" dir="auto">{items.questions[at] === undefined ? <i class="blank" /> : plain(items.questions[at])}</div>
        <div role="gridcell" class="cell gold" dir="auto">{plain(items.golds[at] ?? "")}</div>
        {items.columns.map((_, column) => <Cell items={items} column={column} row={at} />)}
      </div>
    );
  };
  return <Rows count={rows.length} height={ROW_HEIGHT} active={active} row={row} head={head} label={props.label} columns={items.columns.length + (several ? 4 : 3)} empty={emptyText(items)} onActive={props.setActive} onOpen={props.open} />;
}

/** Whether the window is a phone's. */
function useNarrow(): boolean {
  const query = matchMedia("(max-width: 700px)");
  const [is, setIs] = useState(query.matches);
  useEffect(() => {
    const update = () => setIs(query.matches);
    query.addEventListener("change", update);
    return () => query.removeEventListener("change", update);
  }, []);
  return is;
}

/** The table on a narrow window: only a sign for each format. */
function NarrowTable(props: Parameters<typeof Table>[0] & { layout: Record<string, string> }) {
  const { items, rows, active, layout } = props;
  const head = (
    <div class="row head narrow" role="row" aria-rowindex={1} style={layout}>
      <div role="columnheader" class="cell num">Doc</div>
      <div role="columnheader" class="cell">Question</div>
      {items.columns.map((column) => (
        <div role="columnheader" class="cell">
          <button type="button" onClick={() => props.setSort(column.label)} title={`Sort by ${column.label}`}>{plain(column.label)}</button>
        </div>
      ))}
    </div>
  );
  const row = (index: number) => {
    const at = rows[index];
    return (
      <div id={`row-${index}`} class={`row ${index === active ? "active" : ""}`} role="row" aria-rowindex={index + 2} aria-selected={index === active} style={layout} onClick={() => props.open(index)}>
        <div role="gridcell" class="cell num">{items.docs[at]}</div>
        <div role="gridcell" class="cell question" dir="auto">{items.questions[at] === undefined ? <i class="blank" /> : plain(items.questions[at])}</div>
        {items.columns.map((_, column) => <Cell items={items} column={column} row={at} isShort />)}
      </div>
    );
  };
  return <Rows count={rows.length} height={ROW_HEIGHT} active={active} row={row} head={head} label={props.label} columns={items.columns.length + 2} empty={emptyText(items)} onActive={props.setActive} onOpen={props.open} />;
}

function Cell({ items, column, row, isShort }: { items: Items; column: number; row: number; isShort?: boolean }) {
  const state = items.state(column, row);
  const { sign, word, kind } = STATES[state] ?? STATES[""];
  const at = items.at[column][row];
  const one = items.columns[column];
  const score = one.data.scores && (state === "n" || state === "p") ? short(items.score(column, row)) : "";
  const why = at >= 0 ? one.why[at] : "";
  const answer = at >= 0 ? one.answers[at] : "";
  const text = state === "u" || state === "m" ? reason(why || word) : score || answer || (state === "" ? "" : state === "." ? "" : word);
  return (
    <div role="gridcell" class={`cell state ${kind}`} title={[word, score, answer && `answered ${answer}`, why && reason(why), at >= 0 && one.rules[at] && `parsed by ${one.rules[at]}`].filter(Boolean).join(", ")}>
      <b role="img" aria-label={word}>{sign}</b>
      {!isShort && <span dir="auto">{plain(text)}</span>}
    </div>
  );
}

/** How many items of a column are right, wrong and not parsed: a bar whose parts filter. */
function Tally({ items, column, query, toggle }: { items: Items; column: number; query: string; toggle: (key: string, value: string) => void }) {
  const tally: Record<string, number> = {};
  for (const state of items.columns[column].states) tally[state] = (tally[state] ?? 0) + 1;
  const total = items.columns[column].states.length || 1;
  const label = items.columns[column].label;
  return (
    <div class="tally">
      {["r", "p", "w", "u", "m"].map((state) => {
        const { word, kind } = STATES[state];
        const value = word.replace(" ", "_");
        return tally[state] ? (
          <button type="button" class={`${kind} ${has(query, label, value) ? "on" : ""}`} style={{ flexGrow: String(tally[state]) }}
            title={`${count(tally[state])} ${word} (${Math.round((100 * tally[state]) / total)} %): show only these`}
            aria-label={`${label}: ${tally[state]} ${word}`} aria-pressed={has(query, label, value)}
            onClick={() => toggle(label, value)} />
        ) : null;
      })}
    </div>
  );
}

const MOST_VALUES = 12;

/** The fields that items can be grouped by, with the share of right answers in each group. */
function Facets({ items, rows, query, toggle, version }: { items: Items; rows: number[]; query: string; toggle: (key: string, value: string) => void; version: number }) {
  const groups = useMemo(() => {
    const found: { name: string; values: { value: string; n: number; right: number; asked: number }[]; more: number }[] = [];
    for (const [name, field] of items.fields) {
      if (field.names.length < 2 || field.names.length > Math.max(2, items.keys.length / 2)) continue;
      const sums = field.names.map((value) => ({ value, n: 0, right: 0, asked: 0 }));
      for (const row of rows) {
        const sum = sums[field.codes[row]];
        if (!sum) continue;
        sum.n++;
        for (let column = 0; column < items.columns.length; column++) {
          const score = items.score(column, row);
          if (score !== null) {
            sum.asked++;
            sum.right += score;
          }
        }
      }
      const values = sums.filter((sum) => sum.n > 0).sort((a, b) => b.n - a.n || (a.value < b.value ? -1 : 1));
      if (values.length > 0) found.push({ name, values: values.slice(0, MOST_VALUES), more: values.length - MOST_VALUES });
    }
    const why = new Map<string, number>();
    for (const column of items.columns) for (const one of column.why) if (one) why.set(one, (why.get(one) ?? 0) + 1);
    return { found: found.slice(0, 4), why: [...why].sort((a, b) => b[1] - a[1]).slice(0, 6) };
  }, [items, rows, version]);
  const isShare = items.columns.every((column) => column.data.share);
  if (groups.found.length === 0 && groups.why.length === 0) return null;
  return (
    <div class="facets">
      {groups.found.map(({ name, values, more }) => (
        <div class="facet" role="group" aria-label={name}>
          <span class="what">{plain(name)}</span>
          <div>{values.map(({ value, n, right, asked }) => (
            <button type="button" class={has(query, name, value) ? "on" : ""} aria-pressed={has(query, name, value)} onClick={() => toggle(name, value)}
              title={`${name} ${value}: ${counted(n, "item")}${isShare && asked ? `, ${short(right / asked, 2)} right over all formats` : ""}`}>
              <span>{plain(value) || "empty"}</span>
              {isShare && asked > 0 && <i class="meter"><b style={{ width: `${(100 * right) / asked}%` }} /></i>}
              <small>{isShare && asked ? short(right / asked, 2) : count(n)}</small>
            </button>
          ))}
          {more > 0 && <span class="facts">and {more} more: {plain(name)}:{quote("…")}</span>}</div>
        </div>
      ))}
      {groups.why.length > 0 && (
        <div class="facet" role="group" aria-label="Why nothing was parsed">
          <span class="what">not parsed because</span>
          <div>{groups.why.map(([why, n]) => (
            <button type="button" class={has(query, "why", why) ? "on" : ""} aria-pressed={has(query, "why", why)} onClick={() => toggle("why", why)}>
              <span>{plain(reason(why))}</span>
              <small>{count(n)}</small>
            </button>
          ))}</div>
        </div>
      )}
    </div>
  );
}
