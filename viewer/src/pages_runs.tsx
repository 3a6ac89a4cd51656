/** The list of runs: what was asked of which model, with what result. */

import { useEffect, useState } from "preact/hooks";
import { isServed, runs as askRuns } from "./data";
import { go, ids, link, type Route } from "./route";
import { command, count, day, duration, interval, plain, reasons, short } from "./show";
import type { Run, Runs } from "./types";
import { Axis, Command, Failure, Interval, Loading, scaleOf, type Scale } from "./ui";

const POLL_MS = 2000;

/** The runs, asked for again while one of them goes on. */
export function useRuns(): { value?: Runs; error?: string } {
  const [state, setState] = useState<{ value?: Runs; error?: string }>({});
  useEffect(() => {
    let timer = 0;
    let last = "";
    const ask = async (fresh: boolean) => {
      try {
        const value = await askRuns(fresh);
        Object.assign(reasons, value.reasons);
        const text = JSON.stringify(value.runs.map((run) => [run.id, run.kind, run.running, run.results.length]));
        if (text !== last) setState({ value });
        last = text;
      } catch (error) {
        if (!last) setState({ error: (error as Error).message });
      }
      if (isServed) timer = window.setTimeout(() => document.hidden ? wait() : ask(true), POLL_MS);
    };
    const wait = () => {
      timer = window.setTimeout(() => (document.hidden ? wait() : ask(true)), POLL_MS);
    };
    ask(false);
    return () => clearTimeout(timer);
  }, []);
  return state;
}

export function tasksOf(run: Run): string[] {
  return [...new Set(run.results.map((result) => result.task))];
}

/** Results with those of a task together, tasks and formats in the order in which they were asked. */
export function byTask<T extends { task: string }>(results: T[]): T[] {
  const tasks = [...new Set(results.map((result) => result.task))];
  return tasks.flatMap((task) => results.filter((result) => result.task === task));
}

function matches(run: Run, words: string[]): boolean {
  const text = [run.called ?? run.model, run.path, ...run.results.map((result) => result.name)].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

export function RunsPage({ route, all }: { route: Route; all: Runs }) {
  const query = route.query.get("q") ?? "";
  const chosen = ids(route.query.get("runs"));
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const list = all.runs.filter((run) => matches(run, words)).sort((a, b) => (b.date ?? 0) - (a.date ?? 0));
  const set = (changes: Record<string, string>) =>
    go(link("runs", [], { q: query, runs: chosen.join("."), ...changes }), true);
  const toggle = (run: Run) => {
    const rest = chosen.filter((id) => id !== run.id);
    set({ runs: (rest.length === chosen.length ? [...chosen, run.id] : rest).join(".") });
  };
  const picked = all.runs.filter((run) => chosen.includes(run.id));
  const scale = scaleOf(
    list.flatMap((run) => run.results.filter(isShare).flatMap((result) => [result.value, result.low, result.high])),
  );
  return (
    <main>
      <header class="top">
        <h1>Runs</h1>
        <p class="facts">
          {count(all.runs.length)} in <code>{all.given.join(" ")}</code>
        </p>
        <input
          id="search"
          type="search"
          placeholder="Model, task or format"
          aria-label="Search runs"
          value={query}
          onInput={(event) => set({ q: event.currentTarget.value })}
        />
      </header>
      {all.problems.map((problem) => (
        <Failure text={problem.message} />
      ))}
      {list.length === 0 && <p class="empty">{query ? "No run has all these words." : "There are no runs here."}</p>}
      <ul class="cards">
        {list.map((run) => (
          <RunCard key={run.id} run={run} scale={scale} isChosen={chosen.includes(run.id)} toggle={() => toggle(run)} />
        ))}
      </ul>
      {picked.length > 0 && (
        <div class="bar" role="status">
          {picked.length === 1 ? "1 run chosen" : `${picked.length} runs chosen`}
          {picked.length > 1 && (
            <>
              <a class="button" href={link("compare", [], { runs: chosen.join(".") })}>
                Compare
              </a>
              {shared(picked).map((task) => (
                <a class="button quiet" href={link("items", [task], { runs: chosen.join(".") })}>
                  Items of {plain(task)}
                </a>
              ))}
            </>
          )}
          <button type="button" class="quiet" onClick={() => set({ runs: "" })}>
            Clear
          </button>
        </div>
      )}
      <Command
        text={command("lm-eval", picked.length > 1 ? "compare" : all.runs.some((run) => run.kind !== "live") ? "table" : "view", ...(picked.length ? picked.map((run) => run.path) : all.given))}
      />
    </main>
  );
}

function shared(runs: Run[]): string[] {
  const [first, ...others] = runs.map(tasksOf);
  return first.filter((task) => others.every((tasks) => tasks.includes(task))).slice(0, 3);
}

const isShare = (result: { value: number | null; high: number | null }): boolean =>
  (result.value ?? 0) >= 0 && (result.high ?? result.value ?? 0) <= 1;

const MOST_ROWS = 8;

function RunCard(props: { run: Run; scale: Scale; isChosen: boolean; toggle: () => void }) {
  const { run, scale, isChosen, toggle } = props;
  const rows = byTask(run.results).slice(0, MOST_ROWS);
  const several = tasksOf(run).length > 1;
  const href = run.kind === "live" ? link("items", [run.results[0]?.task ?? ""], { runs: run.id }) : link(run.kind === "judge" ? "judge" : "run", [run.id]);
  const cost = run.cost?.cost;
  const name = plain(run.called ?? run.model);
  return (
    <li class={`card run ${isChosen ? "chosen" : ""}`}>
      <div class="title">
        <label class="pick" title="Choose for a comparison">
          <input type="checkbox" checked={isChosen} onChange={toggle} aria-label={`Choose ${name.slice(0, 80)}, ${day(run.date)}`} />
        </label>
        <h2 title={name}>
          <a href={href} data-stop>{name}</a>
        </h2>
        {run.kind === "live" && (
          <span class={`tag ${run.running ? "live" : ""}`}>{run.running ? "running" : "unfinished"}</span>
        )}
        {run.kind === "judge" && <span class="tag">judge</span>}
        {run.harness && run.kind === "run" && <span class="tag">EleutherAI’s harness</span>}
        {run.version?.newer && (
          <span class="tag warn" title="Some of it may not be shown">
            written by version {run.version.wrote}
          </span>
        )}
      </div>
      <p class="facts">
        {[
          several || run.kind === "live" ? "" : plain(run.results[0]?.task ?? ""),
          day(run.date),
          run.shots?.length === 1 ? `${run.shots[0]}-shot` : "",
          duration(run.seconds),
          typeof cost === "number" ? `${cost.toFixed(2)} ${run.cost?.currency ?? "USD"}` : "",
        ]
          .filter(Boolean)
          .join(" · ")}
{" "}
        <span class="path">{plain(run.place)}</span>
      </p>
      {run.kind === "live" ? (
        <p class="facts">{run.results.map((result) => plain(result.name)).join(", ")}</p>
      ) : (
        <div class="scores">
          {rows.map((result, at) => (
            <>
            {several && result.task !== rows[at - 1]?.task && <span class="task">{plain(result.task)}</span>}
            <a class="score" href={link("items", [result.task], { runs: run.id })} title={result.name}>
              <span class="name">{plain(result.format)}</span>
              <span class="num">{short(result.value)}</span>
              {isShare(result) ? (
                <Interval {...result} scale={scale} mark={result.chance} />
              ) : (
                <span class="facts">
                  {result.metric} {interval(result.low, result.high)}
                </span>
              )}
            </a>
            </>
          ))}
          {rows.some(isShare) && (
            <div class="score" aria-hidden="true">
              <span />
              <span />
              <Axis scale={scale} />
            </div>
          )}
          {run.results.length > rows.length && (
            <a class="facts" href={href}>
              and {run.results.length - rows.length} more
            </a>
          )}
        </div>
      )}
    </li>
  );
}

export function Waiting({ state }: { state: { error?: string } }) {
  return <main>{state.error ? <Failure text={state.error} /> : <Loading />}</main>;
}
