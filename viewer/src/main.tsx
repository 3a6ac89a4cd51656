/** The application: which page an address shows, the bar above it, and keys that work everywhere. */

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ComparePage } from "./pages_compare";
import { ItemPage } from "./pages_item";
import { ItemsPage } from "./pages_items";
import { JudgePage } from "./pages_judge";
import { RunView } from "./pages_run";
import { RunsPage, useRuns, Waiting } from "./pages_runs";
import { go, link, type Route, useRoute } from "./route";
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

const KEYS: [string, string][] = [
  ["j  k  ↓  ↑", "next and previous row; on an item, the next and previous item"],
  ["Enter", "open the row"],
  ["u  Esc", "back to the list"],
  ["/", "filter"],
  ["g", "all runs"],
  ["?", "this help"],
];
const QUERIES: [string, string][] = [
  ["young dog", "items whose question or replies begin with text that has both words"],
  ['"young dog"', "… that has them side by side"],
  ["cot:wrong mcqa:right", "by format: right, wrong, partly, unread, missing, not_right"],
  ["flips", "items on which formats differ"],
  ["subject:logic", "by a field of the docs, a part or a cluster"],
  ["rule:after_last", "by the rule that read the answer; any:unread, why:truncated"],
  ["answer:C  gold:A", "by what was answered, and what is right"],
  ["length>500  doc:12", "by the length of the reply, and the number of the doc"],
];

function Help({ close }: { close: () => void }) {
  return (
    <div class="overlay" onClick={close} role="presentation">
      <div class="help" role="dialog" aria-modal="true" aria-label="Keys and filters" onClick={(event) => event.stopPropagation()}>
        <h2>Keys</h2>
        <dl>{KEYS.map(([key, text]) => (<><dt><kbd>{key}</kbd></dt><dd>{text}</dd></>))}</dl>
        <h2>Filters</h2>
        <dl>{QUERIES.map(([key, text]) => (<><dt><code>{key}</code></dt><dd>{text}</dd></>))}</dl>
        <button type="button" class="button" onClick={close} autofocus>Close</button>
      </div>
    </div>
  );
}

function App() {
  const route = useRoute();
  const state = useRuns();
  const [theme, nextTheme] = useTheme();
  const [isHelp, setHelp] = useState(false);
  useEffect(() => {
    const keys = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
      if (event.key === "Escape" && isTyping) (event.target as HTMLElement).blur();
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "?") setHelp((is) => !is);
      else if (event.key === "Escape") setHelp(false);
      else if (event.key === "/") {
        event.preventDefault();
        document.getElementById("search")?.focus();
      } else if (event.key === "g") go(link("runs"));
      else if (["j", "k", "ArrowDown", "ArrowUp"].includes(event.key) && event.target === document.body) {
        const rows = document.querySelector<HTMLElement>(".rows");
        if (rows) {
          event.preventDefault();
          rows.focus();
          rows.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, bubbles: true }));
        }
      }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, []);
  useEffect(() => {
    document.title = ["lm-eval", ...(route.page === "runs" ? [] : route.parts)].join(" · ");
  }, [route.page, route.parts.join()]);
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.querySelector<HTMLElement>("main")?.focus(); }}>Skip to the content</a>
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
