/** One run: its scores with their intervals, what was parsed, and what the differences mean. */

import { get } from "./data";
import { token } from "./filter";
import { byTask } from "./pages_runs";
import { go, link } from "./route";
import { command, count, counted, day, duration, interval, plain, pValue, reason, short } from "./show";
import type { Block, Compared, Pair, Result, RunPage } from "./types";
import { Axis, Command, Copy, Failure, Interval, Loading, Share, useAnswer, scaleOf } from "./ui";

/** Up to this many tasks are shown on one page; of more, each has its own page. */
const MOST_PANELS = 4;

export function RunView({ id, task: only }: { id: string; task: string | null }) {
  const { value: run, error } = useAnswer(() => get<RunPage>(`run/${id}`), [id]);
  const compared = useAnswer(() => get<Compared>(`compare/${id}`), [id]);
  if (error) return <main><Failure text={error} /></main>;
  if (!run) return <main><Loading /></main>;
  const tasks = [...new Set(run.results.map((result) => result.task))];
  return (
    <main class="run-page">
      <header class="top">
        <h1>{plain(run.model)}</h1>
        <p class="facts">
          {[
            run.chat ? "chat template" : "",
            day(run.date),
            duration(run.seconds),
            money(run),
            run.answers?.reused ? `${count(run.answers.reused)} of ${count(run.answers.total ?? 0)} answers reused` : "",
          ]
            .filter(Boolean)
            .join(" · ")}
        </p>
        {run.kind === "judge" && (
          <a class="button" href={link("judge", [run.id, run.results[0]?.key ?? ""])}>
            Topics and nuggets
          </a>
        )}
      </header>
      {run.version?.newer && (
        <Failure text={`This run was written by lm-eval ${run.version.wrote}, which is newer than this viewer. Parts that the viewer does not know are not shown.`} />
      )}
      {run.groups.length > 0 && <Groups run={run} />}
      {only && tasks.length > 1 && <p><a href={link("run", [id])}>All {tasks.length} tasks</a></p>}
      {tasks.length > MOST_PANELS && !only && <Overview run={run} tasks={tasks} blocks={compared.value?.blocks ?? []} />}
      {tasks.filter((task) => (only ? task === only : tasks.length <= MOST_PANELS)).map((task) => (
        <Task
          key={task}
          run={run}
          task={task}
          results={run.results.filter((result) => result.task === task)}
          block={compared.value?.blocks.find((block) => block.task === task && block.compares !== "models")}
          isWaiting={!compared.value && !compared.error}
        />
      ))}
      {compared.value?.problem && <Failure text={compared.value.problem} />}
      {compared.value?.notes.filter((note) => !only || note.startsWith(`${only}:`)).map((note) => <p class="note">{plain(note)}</p>)}
      {run.parts.length > 0 && (only || tasks.length <= MOST_PANELS) && <Parts run={run} parts={run.parts.filter((part) => !only || run.results.some((result) => result.name === part.name && result.task === only))} />}
      <details class="settings">
        <summary>Settings of the run</summary>
        <dl>
          {run.config.map(([name, value]) => (
            <>
              <dt>{name}</dt>
              <dd>
                <code>{plain(value)}</code>
                {name === "command" && <Copy text={value} />}
              </dd>
            </>
          ))}
          {run.git && (
            <>
              <dt>git</dt>
              <dd><code>{run.git}</code></dd>
            </>
          )}
          <dt>results</dt>
          <dd><code>{run.path}</code></dd>
          <dt>written by</dt>
          <dd>lm-eval {run.version?.wrote ?? "of an unknown version"}</dd>
        </dl>
      </details>
      <Command text={command("lm-eval", "compare", run.path)} />
    </main>
  );
}

function money(run: RunPage): string {
  const cost = run.cost?.cost;
  if (typeof cost === "number") return `${cost.toFixed(cost < 1 ? 4 : 2)} ${run.cost?.currency ?? "USD"}`;
  const tokens = Number(run.cost?.tokens_in ?? 0) + Number(run.cost?.tokens_out ?? 0);
  return tokens ? `${count(tokens)} tokens` : "";
}

const best = (a: Result, b: Result): number => (b.higher ? (b.value ?? -1) - (a.value ?? -1) : (a.value ?? 0) - (b.value ?? 0));

function Task(props: { run: RunPage; task: string; results: Result[]; block?: Block; isWaiting: boolean }) {
  const { run, task, block } = props;
  const results = [...props.results].sort(best);
  const first = results[0];
  const scale = scaleOf(results.flatMap((one) => [one.value, one.low, one.high, one.chance]));
  const chance = results.find((one) => one.chance !== null)?.chance ?? null;
  const hasRead = results.some((one) => one.share_read !== null);
  const hasUsage = results.some((one) => (one.usage.tokens_in ?? 0) + (one.usage.tokens_out ?? 0) > 0);
  const hasTime = results.some((one) => (one.usage.wall_s ?? 0) > 0);
  const lost = (one: Result) => Object.values(one.skipped).reduce((sum, value) => sum + value, 0) + one.missing;
  const hasLost = results.some((one) => lost(one) > 0);
  const metrics = new Set(results.map((one) => one.metric));
  const items = link("items", [task], { runs: run.id });
  return (
    <section class="panel">
      <header>
        <h2>
          <a href={items}>{plain(task)}</a>
        </h2>
        <p class="facts">
          {[
            first.n !== null
              ? first.of && first.of > first.n
                ? `first ${count(first.n)} of ${counted(first.of, "item")}`
                : counted(first.n, "item")
              : "",
            first.shots !== null ? `${first.shots}-shot` : "",
          ]
            .filter(Boolean)
            .join(" · ")}
        </p>
        <a class="button" href={link("items", [task], { runs: run.id, sort: results.length > 1 ? "flips" : "" })}>
          {results.length > 1 ? "Items × formats" : "Items"}
        </a>
      </header>
      <div class="wide">
        <table class="results">
          <thead>
            <tr>
              <th scope="col">Format</th>
              <th scope="col" class="num">{metrics.size === 1 ? first.metric : "Score"}</th>
              <th scope="col" class="ci">95 % CI</th>
              <th scope="col" class="plot"><Axis scale={scale} mark={chance} named={chance === null ? "" : `chance ${short(chance, 2)}`} /></th>
              {hasRead && <th scope="col" title="Replies in which an answer was found">Parsed</th>}
              {hasRead && <th scope="col" class="num" title="The score among parsed replies, and if all others were right">If parsed · at most</th>}
              {hasLost && <th scope="col" class="num" title="Docs that could not be asked, or got no answer">Left out</th>}
              {hasUsage && <th scope="col" class="num">Tokens in · out</th>}
              {hasTime && <th scope="col" class="num">Time</th>}
            </tr>
          </thead>
          <tbody>
            {results.map((one) => (
              <tr data-opens onClick={() => go(link("items", [task], { runs: run.id, q: "" }))}>
                <th scope="row">
                  <span title={one.yaml ?? undefined}>{plain(one.format)}</span>
                  {metrics.size > 1 && <small>{one.metric}</small>}
                </th>
                <td class="num strong">{short(one.value)}</td>
                <td class="ci">{interval(one.low, one.high)}</td>
                <td class="plot"><Interval {...one} scale={scale} mark={one.chance} label={one.format} /></td>
                {hasRead && <td><Share value={one.share_read} kind={(one.share_read ?? 1) < 0.95 ? "low" : ""} of={Object.entries(one.unread).map(([why, times]) => `${times} ${reason(why)}`).join(", ")} /></td>}
                {hasRead && <td class="num">{one.share_read !== null && one.share_read < 1 ? `${short(one.if_read)} · ${short(Math.min(1, (one.value ?? 0) + 1 - one.share_read))}` : ""}</td>}
                {hasLost && <td class="num">{lost(one) || ""}</td>}
                {hasUsage && <td class="num">{count(one.usage.tokens_in ?? 0)} · {count(one.usage.tokens_out ?? 0)}</td>}
                {hasTime && <td class="num">{duration(one.usage.wall_s)}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {props.isWaiting && results.length > 1 && <p class="facts">Comparing…</p>}
      {block && <Findings block={block} run={run.id} />}
      <Chosen results={results} />
      {results.flatMap((one) => one.notes.map((note) => <p class="note">{plain(one.format)}: {plain(note)}</p>))}
    </section>
  );
}

/** The spread beside its noise floor, then every verdict with its pairs. */
export function Findings({ block, run }: { block: Block; run: string }) {
  const { spread } = block;
  const overall = block.findings.filter((one) => !one.label).flatMap((one) => one.lines);
  return (
    <div class="findings">
      {overall.map((line) => (
        <p class={`overall ${spread && spread.p < 0.05 ? "yes" : ""}`}>{line}</p>
      ))}
      {spread && block.rows.length > 2 && <Spread block={block} />}
      {block.findings
        .filter((one) => one.label)
        .map((one) => (
          <Verdict label={one.label} lines={one.lines} block={block} run={run} />
        ))}
    </div>
  );
}

function Spread({ block }: { block: Block }) {
  const spread = block.spread as NonNullable<Block["spread"]>;
  const most = Math.max(spread.value, spread.null_95) * 1.08 || 1;
  const at = (value: number) => `${(100 * value) / most}%`;
  return (
    <div class="spread" role="img" aria-label={`Best minus worst ${short(spread.value, 2)}; by chance up to ${short(spread.null_95, 2)}`}>
      <span class="what">best − worst</span>
      <div class="track">
        <i class="floor" style={{ width: at(spread.null_95) }} title={`By chance at most ${short(spread.null_95, 2)} in 95 % of cases`} />
        <i class={`value ${spread.value > spread.null_95 ? "over" : ""}`} style={{ width: at(spread.value) }} />
        <span class="end" style={{ left: at(spread.null_95) }}>chance ≤ {short(spread.null_95, 2)}</span>
      </div>
      <b>{short(spread.value, 2)}</b>
    </div>
  );
}

const VERDICTS: Record<string, string> = { Real: "real", Confounded: "confounded", Inconclusive: "inconclusive" };

function Verdict({ label, lines, block, run }: { label: string; lines: string[]; block: Block; run: string }) {
  const verdict = VERDICTS[label];
  const pairs = block.pairs.filter((pair) => pair.verdict === verdict).slice(0, 6);
  const said = lines.filter((line) => !/^\S.* > \S.*\[/.test(line));
  return (
    <div class={`verdict ${verdict}`}>
      <h3>{label}</h3>
      <div>
        {pairs.length > 0 && verdict !== "confounded" && pairs.length < 6 && <PairRows pairs={pairs} block={block} run={run} />}
        {said.map((line) => <p>{line}</p>)}
      </div>
    </div>
  );
}

/** Differences on one scale, each with the items behind it. */
export function PairRows({ pairs, block, run }: { pairs: Pair[]; block: Block; run: string }) {
  const scale = scaleOf(block.pairs.flatMap(({ result }) => [result.difference.low, result.difference.high, result.difference.value]), true);
  return (
    <div class="pairs">
      {pairs.map((pair) => {
        const { value, low, high } = pair.result.difference;
        const flips = (query: string) => link("items", [block.task], { runs: run, q: query });
        return (
          <div class="pair">
            <span class="names">{plain(pair.first)} <i>&gt;</i> {plain(pair.second)}</span>
            <span class="num">{value > 0 ? "+" : ""}{short(value, 2)}</span>
            <Interval scale={scale} value={value} low={low} high={high} mark={0} kind={pair.verdict} label={`${pair.first} minus ${pair.second}`} />
            <span class="num p">{pValue(pair.p_adjusted)}</span>
            {block.is_binary ? (
              <span class="flips">
                <a href={flips(`${token(pair.first, "right")} ${token(pair.second, "not_right")}`)} title={`Right only under ${pair.first}`}>{pair.counts[0]}</a>
                {" : "}
                <a href={flips(`${token(pair.second, "right")} ${token(pair.first, "not_right")}`)} title={`Right only under ${pair.second}`}>{pair.counts[1]}</a>
              </span>
            ) : <span class="flips">{pair.counts[0]} : {pair.counts[1]}</span>}
          </div>
        );
      })}
      <div class="pair" aria-hidden="true"><span /><span /><Axis scale={scale} /><span /><span class="flips facts">items</span></div>
    </div>
  );
}

/** How often each label was chosen, beside how often it is right. */
function Chosen({ results }: { results: Result[] }) {
  const shown = results.filter((one) => one.chosen && Object.keys(one.chosen).length <= 12);
  if (shown.length === 0) return null;
  return (
    <div class="labels">
      <h3 title="How often each label was chosen; the line is how often it is right">Labels chosen</h3>
      {shown.map((one) => {
        const rows = Object.entries(one.chosen as NonNullable<Result["chosen"]>);
        const most = Math.max(...rows.flatMap(([, each]) => [each.chosen, each.right]), 1);
        return (
          <figure>
            <figcaption>{plain(one.format)}</figcaption>
            <div class="columns">
              {rows.map(([label, each]) => (
                <div class="column" title={`${label}: chosen ${each.chosen} times, right ${each.right} times`}>
                  <div class="space">
                    <i class={each.chosen > 1.5 * each.right && each.chosen - each.right > 3 ? "bar over" : "bar"} style={{ height: `${(100 * each.chosen) / most}%` }} />
                    <i class="right" style={{ bottom: `${(100 * each.right) / most}%` }} />
                  </div>
                  <span>{plain(label).slice(0, 8)}</span>
                </div>
              ))}
            </div>
          </figure>
        );
      })}
      <p class="facts">Bars: how often chosen. Lines: how often right.</p>
    </div>
  );
}

function Groups({ run }: { run: RunPage }) {
  const scale = scaleOf(run.groups.flatMap((group) => [group.value, group.low, group.high]));
  return (
    <section class="panel">
      <header><h2>Groups</h2></header>
      <div class="wide">
        <table class="results">
          <tbody>
            {run.groups.map((group) => (
              <tr>
                <th scope="row">{plain(group.name)}</th>
                <td class="num strong">{short(group.value)}</td>
                <td class="ci">{interval(group.low, group.high)}</td>
                <td class="plot"><Interval {...group} scale={scale} /></td>
                <td class="facts">{group.metric} · {counted(group.tasks.length, "task")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** A run of many tasks: a row for each result, and what each comparison says in a line. */
function Overview({ run, tasks, blocks }: { run: RunPage; tasks: string[]; blocks: Block[] }) {
  const results = byTask(run.results);
  const scale = scaleOf(results.flatMap((one) => [one.value, one.low, one.high]));
  const hasRead = results.some((one) => one.share_read !== null);
  const said = blocks.flatMap((block) => block.findings.filter((one) => !one.label || one.label !== "Inconclusive").slice(0, 2).map((one) => ({ task: block.task, text: [one.label, ...one.lines].filter(Boolean).join(": ") })));
  return (
    <section class="panel">
      <header><h2>{counted(tasks.length, "task")}</h2></header>
      <div class="wide">
        <table class="results">
          <thead>
            <tr>
              <th scope="col">Task</th>
              <th scope="col">Format</th>
              <th scope="col" class="num">Items</th>
              <th scope="col" class="num">Score</th>
              <th scope="col" class="ci">95 % CI</th>
              <th scope="col" class="plot"><Axis scale={scale} /></th>
              {hasRead && <th scope="col">Parsed</th>}
            </tr>
          </thead>
          <tbody>
            {results.map((one, at) => (
              <tr data-opens onClick={() => go(link("run", [run.id], { task: one.task }))}>
                <th scope="row">{one.task !== results[at - 1]?.task && <a href={link("run", [run.id], { task: one.task })}>{plain(one.task)}</a>}</th>
                <td>{plain(one.format)}</td>
                <td class="num">{one.n === null ? "" : count(one.n)}</td>
                <td class="num strong">{short(one.value)}</td>
                <td class="ci">{interval(one.low, one.high)}</td>
                <td class="plot"><Interval {...one} scale={scale} mark={one.chance} label={one.name} /></td>
                {hasRead && <td><Share value={one.share_read} kind={(one.share_read ?? 1) < 0.95 ? "low" : ""} /></td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {said.length > 0 && (
        <div class="findings">
          <h3>What differs</h3>
          <ul class="said">{said.map(({ task, text }) => <li><a href={link("run", [run.id], { task })}>{plain(task)}</a><span>{text}</span></li>)}</ul>
        </div>
      )}
    </section>
  );
}

function Parts({ run, parts }: { run: RunPage; parts: RunPage["parts"] }) {
  return (
    <section class="panel">
      <header><h2>By part</h2></header>
      <div class="parts">
        {parts.map((part) => {
          const scale = scaleOf(part.rows.flatMap((row) => [row.value, row.low, row.high]));
          const result = run.results.find((one) => one.name === part.name);
          return (
            <table class="results">
              <caption>{plain(part.name)} by {plain(part.field)}</caption>
              <tbody>
                {part.rows.map((row) => (
                  <tr>
                    <th scope="row">
                      {result ? <a href={link("items", [result.task], { runs: run.id, q: token(part.field, row.part) })}>{plain(row.part)}</a> : plain(row.part)}
                    </th>
                    <td class="num strong">{short(row.value)}</td>
                    <td class="plot"><Interval scale={scale} value={row.value} low={row.low} high={row.high} label={row.part} /></td>
                    <td class="num facts">n {row.n}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          );
        })}
      </div>
    </section>
  );
}
