/** Runs or formats against each other: a forest plot of paired differences, and the items behind them. */

import { get } from "./data";
import { token } from "./filter";
import { labels } from "./items";
import { go, ids, link, type Route } from "./route";
import { command, count, counted, interval, percent, plain, pValue, short } from "./show";
import type { Block, Compared, Run, Runs } from "./types";
import { Axis, Command, Failure, Interval, Loading, scaleOf, Share, useAnswer } from "./ui";

export function ComparePage({ route, all }: { route: Route; all: Runs }) {
  const wanted = ids(route.query.get("runs"));
  const finished = all.runs.filter((run) => run.kind !== "live");
  // In the order of the list, whatever they were chosen in: an export holds each comparison once.
  const runs = wanted.length ? finished.filter((run) => wanted.includes(run.id)) : finished.slice(0, 6);
  const chosen = runs.map((run) => run.id);
  const task = route.query.get("task");
  const address = `compare/${chosen.join("+")}`;
  const { value, error } = useAnswer(() => (chosen.length ? get<Compared>(address) : Promise.reject(new Error("Choose runs in the list of runs first."))), [address]);
  const set = (changes: Record<string, string | null>) => go(link("compare", [], { runs: chosen.join("."), task, ...changes }), true);
  const blocks = value?.blocks.filter((block) => !task || block.task === task) ?? [];
  const tasks = [...new Set(value?.blocks.map((block) => block.task) ?? [])];
  return (
    <main class="compare-page">
      <header class="top">
        <h1>Compare</h1>
        <p class="facts">paired, item by item</p>
        {tasks.length > 1 && (
          <select aria-label="Task" value={task ?? ""} onChange={(event) => set({ task: event.currentTarget.value })}>
            <option value="">all tasks</option>
            {tasks.map((name) => <option value={name}>{name}</option>)}
          </select>
        )}
      </header>
      <div class="picker" role="group" aria-label="Runs to compare">
        {finished.slice(0, 40).map((run) => (
          <label class={chosen.includes(run.id) ? "on" : ""}>
            <input type="checkbox" checked={chosen.includes(run.id)} onChange={() => set({ runs: (chosen.includes(run.id) ? chosen.filter((id) => id !== run.id) : [...chosen, run.id]).join(".") || "none" })} />
            <span title={plain(run.called ?? run.model)}>{plain(run.called ?? run.model)}</span> <small>{run.results.slice(0, 4).map((one) => plain(one.name)).join(", ")}{run.results.length > 4 ? " …" : ""}</small>
          </label>
        ))}
      </div>
      {error && <Failure text={error} />}
      {!value && !error && <Loading />}
      {value?.problem && <Failure text={value.problem} />}
      {blocks.map((block) => <BlockPanel key={block.title} block={block} runs={runs} />)}
      {value && blocks.length === 0 && !value.problem && <p class="empty">There is nothing to compare here. Choose runs of one task that differ in one thing: several formats of a model, or several models under a format.</p>}
      {value?.notes.map((note) => <p class="note">{plain(note)}</p>)}
      {runs.length > 0 && <Command text={command("lm-eval", "compare", ...runs.map((run) => run.path), ...(task ? ["--tasks", task] : []), ...(blocks.some((block) => block.left_out) ? ["--intersect"] : []))} />}
    </main>
  );
}

function BlockPanel({ block, runs }: { block: Block; runs: Run[] }) {
  const differences = scaleOf(block.pairs.flatMap(({ result }) => [result.difference.value, result.difference.low, result.difference.high]), true);
  const scores = scaleOf(block.rows.flatMap((row) => [row.score.value, row.score.low, row.score.high]));
  const involved = runs.filter((run) => run.results.some((result) => result.task === block.task && (block.compares === "models" ? block.within.startsWith(result.format) : block.within.startsWith(run.model))));
  const address = involved.map((run) => run.id).join(".");
  const items = (query: string) => link("items", [block.task], { runs: address, q: query });
  const columns = labels(involved.flatMap((run) => run.results.filter((result) => result.task === block.task).map((result) => ({ run, result }))));
  // Models that differ in their arguments have other names there: then all differing items are shown.
  const only = (first: string, second: string) => (columns.includes(first) && columns.includes(second) ? `${token(first, "right")} ${token(second, "not_right")}` : "flips");
  const hasRead = block.rows.some((row) => row.share_read !== null);
  const pairs = [...block.pairs].sort((a, b) => Math.abs(b.result.difference.value) - Math.abs(a.result.difference.value));
  return (
    <section class="panel">
      <header>
        <h2>{plain(block.task)}</h2>
        <p class="facts">{block.rows.length} {block.compares} on the same {count(block.num_items)} items · {block.compares !== "models" ? "asked of" : "under"} {plain(block.within)}</p>
        <a class="button" href={items("flips")}>Only differing items</a>
      </header>
      {block.left_out && <p class="note">On the items that all have: {Object.entries(block.left_out).map(([one, n]) => `${plain(one)} has ${n} more`).join(", ")}.</p>}
      {block.findings.filter((one) => !one.label).map((one) => <p class={`overall ${block.spread && block.spread.p < 0.05 ? "yes" : ""}`}>{one.lines.join(" ")}</p>)}
      <div class="wide">
        <table class="results forest">
          <thead>
            <tr>
              <th scope="col">Pair</th>
              <th scope="col" class="num">Difference</th>
              <th scope="col" class="ci">95 % CI</th>
              <th scope="col" class="plot"><Axis scale={differences} /></th>
              <th scope="col" class="num">p, adjusted</th>
              <th scope="col">Verdict</th>
              {hasRead && <th scope="col" class="num" title="On the items whose answers were parsed under both">If both parsed</th>}
              <th scope="col" class="num" title="Items right only under the first, and only under the second">Flips</th>
            </tr>
          </thead>
          <tbody>
            {pairs.map((pair) => {
              const { value, low, high } = pair.result.difference;
              return (
                <tr>
                  <th scope="row">{plain(pair.first)} − {plain(pair.second)}</th>
                  <td class="num strong">{value > 0 ? "+" : ""}{short(value, 2)}</td>
                  <td class="ci">{interval(low, high)}</td>
                  <td class="plot"><Interval scale={differences} value={value} low={low} high={high} mark={0} kind={pair.verdict.replace(" ", "-")} label={`${pair.first} minus ${pair.second}`} /></td>
                  <td class="num">{pValue(pair.p_adjusted)}</td>
                  <td><span class={`tag v-${pair.verdict.replace(" ", "-")}`}>{pair.verdict}</span></td>
                  {hasRead && <td class="num">{pair.both_read ? `${pair.both_read.difference.value > 0 ? "+" : ""}${short(pair.both_read.difference.value, 2)}` : ""}</td>}
                  <td class="num flips">
                    {block.is_binary ? (
                      <>
                        <a href={items(only(pair.first, pair.second))}>{pair.counts[0]}</a> : <a href={items(only(pair.second, pair.first))}>{pair.counts[1]}</a>
                      </>
                    ) : `${pair.counts[0]} : ${pair.counts[1]}`}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <div class="wide">
        <table class="results">
          <thead>
            <tr>
              <th scope="col">{block.compares !== "models" ? "Format" : "Model"}</th>
              <th scope="col" class="num">Score</th>
              <th scope="col" class="ci">95 % CI</th>
              <th scope="col" class="plot"><Axis scale={scores} /></th>
              {hasRead && <th scope="col">Parsed</th>}
              {hasRead && <th scope="col" class="num">If parsed</th>}
            </tr>
          </thead>
          <tbody>
            {block.rows.map((row) => (
              <tr>
                <th scope="row">{plain(row.label)} {row.metric !== block.rows[0].metric && <small>{row.metric}</small>}</th>
                <td class="num strong">{short(row.score.value)}</td>
                <td class="ci">{interval(row.score.low, row.score.high)}</td>
                <td class="plot"><Interval scale={scores} value={row.score.value} low={row.score.low} high={row.score.high} label={row.label} /></td>
                {hasRead && <td><Share value={row.share_read} kind={(row.share_read ?? 1) < 0.95 ? "low" : ""} /></td>}
                {hasRead && <td class="num">{row.share_read !== null && row.share_read < 1 && row.score_read ? short(row.score_read.value) : ""}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <details open={block.rows.length === 2}>
        <summary>In words</summary>
        <div class="prose">{block.sentences.map((sentence) => <p>{sentence}</p>)}</div>
      </details>
      {block.steady && <p class="facts">Right under all {block.compares}: {counted(block.steady[0], "item")}; under none: {count(block.steady[1])}. These {percent((block.steady[0] + block.steady[1]) / block.num_items)} of the items do not tell the {block.compares} apart.</p>}
    </section>
  );
}
