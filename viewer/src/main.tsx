/** The application: which page an address shows, the bar above it, and keys that work everywhere. */

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ComparePage } from "./pages_compare";
import { ItemPage } from "./pages_item";
import { ItemsPage } from "./pages_items";
import { JudgePage } from "./pages_judge";
import { RunView } from "./pages_run";
import { RunsPage, useRuns, Waiting } from "./pages_runs";
import { go, isFree, link, type Route, useRoute } from "./route";
import { plain } from "./show";
import type { Runs } from "./types";
import "./style.css";

const THEMES = ["auto", "light", "dark"] as const;

function storedTheme(): string {
  try {
    return localStorage.getItem("lm-eval-theme") ?? "auto";
  } catch {
    return "auto";
  }
}

function useTheme(): [string, () => void] {
  const [theme, setTheme] = useState(storedTheme);
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("lm-eval-theme", theme);
    } catch {
      /* a page without storage keeps it until it is closed */
    }
  }, [theme]);
  return [theme, () => setTheme(THEMES[(THEMES.indexOf(theme as (typeof THEMES)[number]) + 1) % THEMES.length])];
}

function Page({ route, all }: { route: Route; all: Runs }) {
  switch (route.page) {
    case "runs":
      return <RunsPage route={route} all={all} />;
    case "run":
      return <RunView id={route.parts[0] ?? ""} task={route.query.get("task")} />;
    case "items":
      return <ItemsPage route={route} all={all} />;
    case "item":
      return <ItemPage route={route} all={all} />;
    case "compare":
      return <ComparePage route={route} all={all} />;
    case "judge":
      return <JudgePage route={route} all={all} />;
    default:
      return (
        <main>
          <p class="empty">
            There is no such page. <a href={link("runs")}>All runs</a>
          </p>
        </main>
      );
  }
}

/** Where a page is: runs › model › task › doc. */
function Trail({ route, all }: { route: Route; all: Runs }) {
  const steps: [string, string | null][] = [];
  const named = (route.query.get("runs") ?? "").split(".").filter(Boolean);
  const run = all.runs.find((one) => one.id === (route.page === "run" || route.page === "judge" ? route.parts[0] : named[0]));
  if (run && (route.page === "run" || route.page === "judge" || named.length === 1))
    steps.push([run.model, route.page === "run" || run.kind === "live" ? null : link("run", [run.id])]);
  else if (named.length > 1) steps.push([`${named.length} runs`, link("runs", [], { runs: named.join(".") })]);
  if (route.page === "items" || route.page === "item")
    steps.push([route.parts[0], route.page === "items" ? null : link("items", [route.parts[0]], { runs: route.query.get("runs"), q: route.query.get("q"), sort: route.query.get("sort"), at: route.parts[1] })]);
  if (route.page === "item") steps.push([`doc ${route.parts[1]}`, null]);
  if (route.page === "compare") steps.push(["compare", null]);
  if (route.page === "judge") steps.push(["judge", null]);
  return (
    <nav class="trail" aria-label="Where you are">
      <a href={link("runs")} class="brand">
        lm-eval
      </a>
      {steps.map(([text, to]) => (
        <>
          <i aria-hidden="true">›</i>
          {to ? <a href={to}>{plain(text)}</a> : <span aria-current="page">{plain(text)}</span>}
        </>
      ))}
    </nav>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  const main = document.querySelector("main");
  if (!main) return;
  main.tabIndex = -1;
  main.focus();
}

const KEYS: [string, string][] = [
  ["j  k  ↓  ↑", "next and previous row, run or text; on an item, the next and previous item"],
  ["Enter", "open the row or run"],
  ["u", "up: from an item to its list, to its run, to all runs"],
  ["/", "filter"],
  ["g", "all runs"],
  ["?", "this help"],
];
const QUERIES: [string, string][] = [
  ["young dog", "items whose question or replies begin with text that has both words"],
  ['"young dog"', "… that has them side by side"],
  ["cot:wrong mcqa:right", "by format: right, wrong, partly, parsed, not_parsed, missing, not_right"],
  ["flips", "items on which formats differ"],
  ["subject:logic", "by a field of the docs, a part or a cluster"],
  ["rule:after_last", "by the rule that parsed the answer; any:not_parsed, why:truncated"],
  ["answer:C  gold:A", "by what was answered, and what is right"],
  ["length>500  doc:12", "by the length of the reply, and the number of the doc"],
];

/** A modal dialog: the browser keeps the focus in it and gives it back. */
function Help({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="help" aria-label="Keys and filters" onClose={close} onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <h2>Keys</h2>
      <dl>{KEYS.map(([key, text]) => (<><dt><kbd>{key}</kbd></dt><dd>{text}</dd></>))}</dl>
      <h2>Filters</h2>
      <dl>{QUERIES.map(([key, text]) => (<><dt><code>{key}</code></dt><dd>{text}</dd></>))}</dl>
      <button type="button" class="button" onClick={() => dialog.current?.close()} autofocus>Close</button>
    </dialog>
  );
}

/** `j` and `k` in the rows of the page, or from one run or text to the next. */
function step(key: string): void {
  const rows = document.querySelector<HTMLElement>(".rows");
  if (rows) {
    rows.focus();
    rows.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    return;
  }
  const stops = [...document.querySelectorAll<HTMLElement>("[data-stop]")];
  const current = stops.find((stop) => stop === document.activeElement) ?? stops.find((stop) => stop.ariaCurrent === "true");
  const at = (current ? stops.indexOf(current) : -1) + (key === "j" ? 1 : -1);
  const stop = stops[Math.min(Math.max(at, 0), stops.length - 1)];
  stop?.focus();
  if (stop instanceof HTMLButtonElement) stop.click();
}

/** What a browser's tab is called. */
function titleOf(route: Route, all: Runs | undefined): string {
  const run = all?.runs.find((one) => one.id === route.parts[0]);
  const names: Record<string, string[]> = {
    run: [run?.model ?? ""],
    judge: [run?.model ?? "", "judge"],
    items: route.parts,
    item: [route.parts[0], `doc ${route.parts[1]}`],
    compare: ["compare"],
  };
  return [...(names[route.page] ?? []), "lm-eval"].filter(Boolean).map(plain).join(" · ");
}

function App() {
  const route = useRoute();
  const state = useRuns();
  const [theme, nextTheme] = useTheme();
  const [isHelp, setHelp] = useState(false);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (event.key === "Escape" && event.target instanceof HTMLInputElement) event.target.blur();
      if (!isFree(event)) return;
      if (event.key === "?") setHelp(true);
      else if (event.key === "/") {
        event.preventDefault();
        document.getElementById("search")?.focus();
      } else if (event.key === "g") go(link("runs"));
      else if (event.key === "u") [...document.querySelectorAll<HTMLElement>(".trail a")].pop()?.click();
      else if (event.key === "j" || event.key === "k") step(event.key);
      else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target === document.body && document.querySelector(".rows")) {
        event.preventDefault();
        step(event.key);
      }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  const title = titleOf(route, state.value);
  useEffect(() => {
    document.title = title;
  }, [title]);
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <header class="app">
        {state.value ? <Trail route={route} all={state.value} /> : <nav class="trail"><a class="brand" href="#/">lm-eval</a></nav>}
        <button type="button" class="quiet" onClick={nextTheme} title="Colours: automatic, light, dark">{theme === "auto" ? "◐" : theme === "light" ? "☀" : "☾"}<span class="sr">Colours: {theme}</span></button>
        <button type="button" class="quiet" onClick={() => setHelp(true)} title="Keys and filters (?)">?<span class="sr">Keys and filters</span></button>
      </header>
      {state.value ? <Page route={route} all={state.value} /> : <Waiting state={state} />}
      {isHelp && <Help close={() => setHelp(false)} />}
    </>
  );
}

render(<App />, document.getElementById("app") as HTMLElement);
