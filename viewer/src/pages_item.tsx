/** One item under all formats: prompt, reply, what was parsed from it and by which rule. */

import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { sampleAt } from "./data";
import { diff } from "./diff";
import { filtered, sorted } from "./filter";
import type { Column, Items } from "./items";
import { order, runsOf, useItems } from "./pages_items";
import { go, isFree, link, type Route } from "./route";
import { command, hidden, plain, reason, short, shown as shownChar } from "./show";
import type { Choice, Prompt, Reply, Runs, Sample } from "./types";
import { Command, Copy, Failure, Loading, State, Text } from "./ui";

interface Shown {
  column: Column;
  state: string;
  sample?: Sample;
  error?: string;
}

export function ItemPage({ route, all }: { route: Route; all: Runs }) {
  const task = route.parts[0] ?? "";
  const doc = Number(route.parts[1]);
  const runs = runsOf(all, route, task);
  const { items, error, version } = useItems(runs, task);
  const runIds = route.query.get("runs");
  const query = route.query.get("q") ?? "";
  const sortBy = route.query.get("sort");
  const row = items ? items.docs.indexOf(doc) : -1;
  const shown = useSamples(items, row, version);
  const rows = useMemo(() => {
    if (!items) return [];
    if (order.task === `${task}/${runIds ?? ""}` && order.rows.includes(row)) return order.rows;
    const by = (sortBy ?? "").replace(/^-/, "");
    return sorted(items, filtered(items, query).rows, { by, down: by === "flips" || (sortBy ?? "").startsWith("-") });
  }, [items, items?.keys.length, query, sortBy]);
  const at = rows.indexOf(row);
  const address = (index: number, extra: Record<string, string | null> = {}) =>
    items && rows[index] !== undefined
      ? link("item", [task, items.docs[rows[index]]], { runs: runIds, q: query, sort: sortBy, diff: route.query.get("diff"), ...extra })
      : undefined;
  const before = address(at - 1);
  const after = address(at + 1);
  const back = link("items", [task], { runs: runIds, q: query, sort: sortBy, at: String(doc) });
  useLayoutEffect(() => {
    const keys = (event: KeyboardEvent) => {
      if (!isFree(event)) return;
      const to = event.key === "j" || event.key === "ArrowRight" ? after : event.key === "k" || event.key === "ArrowLeft" ? before : event.key === "Escape" ? back : undefined;
      if (to) {
        event.preventDefault();
        go(to, event.key !== "Escape");
      }
    };
    addEventListener("keydown", keys);
    return () => removeEventListener("keydown", keys);
  }, [before, after, back]);
  if (error) return <main><Failure text={error} /></main>;
  if (!items) return <main><Loading /></main>;
  if (row < 0) return <main><Failure text={`No doc ${route.parts[1]} was asked under ${task}.`} /></main>;
  const first = shown.find((one) => one.sample)?.sample;
  const pair = (route.query.get("diff") ?? "").split("~");
  const labels = shown.filter((one) => one.sample?.prompts.length).map((one) => one.column.label);
  const isDiff = pair.length === 2 && pair.every((label) => labels.includes(label));
  const setDiff = (value: string | null) => go(link("item", [task, doc], { runs: runIds, q: query, sort: sortBy, diff: value }), true);
  const previews = [...new Set(shown.filter((each) => !isDiff || pair.includes(each.column.label)).map((each) => each.column.result.name))];
  return (
    <main class="item-page">
      <header class="top">
        <h1>
          <a href={back}>{plain(task)}</a> <span class="doc">doc {doc}</span>
        </h1>
        <nav class="step" aria-label="Items of the list">
          <a class={`button quiet ${before ? "" : "off"}`} href={before} aria-label="Previous item" title="Previous item (k)">←</a>
          <span class="facts">{at >= 0 ? `${at + 1} of ${rows.length}` : "not in the list"}</span>
          <a class={`button quiet ${after ? "" : "off"}`} href={after} aria-label="Next item" title="Next item (j)">→</a>
        </nav>
        {labels.length > 1 && (
          <span class="chooser">
            <button type="button" class={isDiff ? "button quiet" : "button on"} aria-pressed={!isDiff} onClick={() => setDiff(null)}>Side by side</button>
            <button type="button" class={isDiff ? "button on" : "button quiet"} aria-pressed={isDiff} onClick={() => setDiff(isDiff ? null : `${labels[0]}~${labels[1]}`)}>Prompt diff</button>
          </span>
        )}
      </header>
      {first && <Doc samples={shown.flatMap((one) => one.sample ?? [])} />}
      {isDiff ? (
        <Difference shown={shown} pair={pair} labels={labels} set={setDiff} />
      ) : (
        <div class="formats" style={{ "--columns": String(Math.min(shown.length, 4)) }}>
          {shown.map((each) => <FormatCard key={each.column.label} shown={each} />)}
        </div>
      )}
      {previews.length > 0 && <Command text={previews.map((name) => command("lm-eval", "preview", name, "--doc", String(doc))).join("; ")} />}
    </main>
  );
}

/** The samples of a row in all columns. The line is guessed from the place, until first words tell. */
function useSamples(items: Items | undefined, row: number, version: number): Shown[] {
  const [found, setFound] = useState<Record<string, Sample | string>>({});
  const columns = items?.columns ?? [];
  const asked = items && row >= 0 ? columns.map((_, at) => items.at[at][row]) : [];
  const key = items && row >= 0 ? `${String(items.keys[row])}/${columns.map((column, at) => items.line(at, row) ?? (column.isDone ? "x" : "?")).join(",")}` : "";
  useEffect(() => {
    if (!items || row < 0) return;
    let isCurrent = true;
    columns.forEach(async (column, at) => {
      const place = asked[at];
      if (place === undefined || place < 0 || column.problem) return;
      const line = items.line(at, row);
      try {
        const sample = await sampleAt<Sample>(column.run.id, column.result.key, line ?? place);
        if (isCurrent && sample && sample.doc === items.docs[row])
          setFound((known) => ({ ...known, [`${String(items.keys[row])}/${column.label}`]: sample }));
      } catch (error) {
        if (isCurrent) setFound((known) => ({ ...known, [`${String(items.keys[row])}/${column.label}`]: (error as Error).message }));
      }
    });
    return () => {
      isCurrent = false;
    };
  }, [key, version === 0]);
  if (!items || row < 0) return [];
  return columns
    .map((column, at) => {
      const value = found[`${String(items.keys[row])}/${column.label}`];
      const state = items.state(at, row);
      return typeof value === "string" ? { column, state, error: value } : { column, state, sample: value };
    })
    .filter((one) => one.state !== "");
}

/** The place of the right choice among the options: a scored choice, a label or a text may tell. */
function goldPlace(samples: Sample[], options: string[]): number {
  for (const sample of samples) {
    if (sample.choices.length === options.length) {
      const at = sample.choices.findIndex((choice) => choice.gold);
      if (at >= 0) return at;
    }
    const names = sample.options.length === options.length ? sample.options : options;
    const at = names.findIndex((option) => option === sample.gold || option.startsWith(`${sample.gold}. `));
    if (at >= 0) return at;
  }
  return -1;
}

function Doc({ samples }: { samples: Sample[] }) {
  const sample = samples.find((one) => one.options.some((option) => /^\w+\. /.test(option))) ?? samples[0];
  const gold = goldPlace(samples, sample.options);
  const question = sample.fields.find(([name]) => ["question", "query", "problem", "goal", "text", "sentence", "prompt", "input", "nugget"].includes(name)) ?? sample.fields.find(([, value]) => value.length > 20);
  return (
    <section class="doc-panel panel">
      {sample.redacted && <p class="note">The task hides its docs: texts and prompts were not stored.</p>}
      {question && <p class="question" dir="auto">{question[1].length > 1500 ? `${plain(question[1].slice(0, 1500))}…` : plain(question[1])}</p>}
      <div class="options">
        {sample.options.slice(0, 26).map((option, at) => {
          const isGold = at === gold;
          return <span class={isGold ? "gold" : ""} dir="auto">{plain(option)}{isGold && <b aria-label="the right answer"> ✓</b>}</span>;
        })}
        {sample.options.length === 0 && sample.gold && <span class="gold" dir="auto">{plain(sample.gold.slice(0, 600))}<b aria-label="the right answer"> ✓</b></span>}
      </div>
      <details>
        <summary>All fields of the doc</summary>
        <dl>
          {sample.fields.map(([name, value]) => (
            <>
              <dt>{plain(name)}</dt>
              <dd><Text text={value} kind="small" /></dd>
            </>
          ))}
        </dl>
      </details>
    </section>
  );
}

function FormatCard({ shown }: { shown: Shown }) {
  const { column, state, sample, error } = shown;
  return (
    <article class={`card format s-${state === "." ? "none" : state}`} aria-label={column.label}>
      <header>
        <h2>{plain(column.label)}</h2>
        <State state={state} />
        {sample && sample.metrics.length > 0 && (
          <span class="facts" title={sample.metrics.map(([name, value]) => `${name} ${short(value)}`).join("\n")}>
            {sample.metrics.slice(0, 3).map(([name, value]) => `${name} ${short(value, 2)}`).join(" · ")}
          </span>
        )}
      </header>
      {error && <Failure text={error} />}
      {column.problem && <p class="note">{column.problem}</p>}
      {!sample && !error && !column.problem && <Loading />}
      {sample && <Outcome sample={sample} />}
      {sample && sample.prompts.map((prompt, at) => <PromptPart prompt={prompt} title={sample.prompts.length > 1 ? `Prompt ${at + 1} of ${sample.prompts.length}` : "Prompt"} sample={sample} />)}
    </article>
  );
}

function Outcome({ sample }: { sample: Sample }) {
  if (sample.missing) return <p class="read unread"><b>Missing</b> {plain(sample.missing)}</p>;
  return (
    <>
      {sample.choices.length > 0 && <Choices choices={sample.choices} options={sample.options} />}
      {sample.replies.map((reply, at) => <ReplyPart reply={reply} number={sample.replies.length > 1 ? at + 1 : 0} sample={sample} />)}
    </>
  );
}

function ReplyPart({ reply, number, sample }: { reply: Reply; number: number; sample: Sample }) {
  const isRead = reply.no_answer === null;
  return (
    <section class="part">
      <div class={`read ${isRead ? "" : "unread"}`}>
        {isRead ? (
          <>
            <span class="what">parsed</span> <b dir="auto">{plain(reply.answer ?? "")}</b>
            {reply.rule && <> by <code class="rule">{reply.rule}</code></>}
          </>
        ) : (
          <span>
            <b>Not parsed</b>: {reason(reply.no_answer ?? "")}
          </span>
        )}
        {sample.gold && <span class="against">gold <b dir="auto">{plain(sample.gold.slice(0, 120))}</b></span>}
      </div>
      <h3>
        Reply{number ? ` ${number}` : ""}
        <small>{reply.text.length.toLocaleString("en")} characters{reply.finish === "length" ? ", cut off at the limit" : reply.finish && reply.finish !== "stop" ? `, ${reply.finish}` : ""}</small>
        <Copy text={reply.text} title="Copy the reply" />
      </h3>
      {reply.reasoning && (
        <details>
          <summary>Reasoning, sent apart from the reply and not parsed</summary>
          <Text text={reply.reasoning} />
        </details>
      )}
      {sample.started && <p class="started">after “{plain(sample.started)}”</p>}
      {reply.text ? <Text text={reply.text} kind="reply" marks={reply.span ? [{ start: reply.span[0], end: reply.span[1], kind: "span", title: `Parsed by ${reply.rule ?? "the reader"}` }] : []} /> : <p class="empty">The reply is empty.</p>}
    </section>
  );
}

function Choices({ choices, options }: { choices: Choice[]; options: string[] }) {
  const named = (choice: Choice, at: number) => (options.length === choices.length && !options[at].includes(choice.text.trim()) ? options[at] : /^\s*\w\s*$/.test(choice.text) && options.length === choices.length ? options[at].replace(/^\w+\. /, "") : "");
  const logprobs = choices.map((choice) => choice.logprob);
  const best = Math.max(...logprobs);
  const sum = logprobs.reduce((total, value) => total + Math.exp(value - best), 0);
  const shareOf = (value: number) => Math.exp(value - best) / sum;
  return (
    <section class="part">
      <h3>
        {choices.length === 1 ? "Scored text" : "Scored choices"}
        <small title="Bars: the share of probability among these choices">log-likelihood</small>
      </h3>
      <ol class="choices">
        {choices.map((choice, at) => (
          <li class={`${choice.picked ? "picked" : ""} ${choice.gold ? "gold" : ""}`}>
            <span class="text" dir="auto">{plain(choice.text) || (choices.length === 1 ? "the whole text" : "␠")}{" "}{named(choice, at) && <span>{plain(named(choice, at))}</span>}</span>
            <span class="marks">
              {choice.picked && <b class={choice.gold ? "right" : "wrong"}>picked</b>}
              {choice.gold && <b class="right">gold</b>}
            </span>
            <span class="num" title={`${choice.tokens ?? "?"} tokens${choice.greedy ? ", what greedy decoding gives" : ""}`}>{choice.logprob.toFixed(2).replace("-", "−")}</span>
            <i class="meter"><b style={{ width: choices.length > 1 ? `${100 * shareOf(choice.logprob)}%` : "0" }} /></i>
          </li>
        ))}
      </ol>
    </section>
  );
}

export const promptText = (prompt: Prompt): string =>
  prompt.text ?? (prompt.messages ?? []).map((message) => `${message.role}:\n${message.text}`).join("\n\n");

function PromptPart({ prompt, title, sample }: { prompt: Prompt; title: string; sample: Sample }) {
  const text = promptText(prompt);
  const start = prompt.start ?? 0;
  return (
    <section class="part prompt-part">
      <h3>
        {title}
        <small>{text.length.toLocaleString("en")} characters{sample.shots ? `, ${sample.shots}-shot` : ""}</small>
        <Copy text={text} title="Copy the prompt" />
      </h3>
      {prompt.messages ? (
        <Messages messages={prompt.messages} />
      ) : (
        <>
          {start > 0 && (
            <details>
              <summary>{sample.shots} example{sample.shots === 1 ? "" : "s"} before it</summary>
              <Text text={text.slice(0, start)} kind="shots" />
            </details>
          )}
          <Text text={text.slice(start)} marks={chatMarks(text.slice(start))} />
        </>
      )}
      {Object.keys(sample.settings).length > 0 && (
        <details>
          <summary>Generation settings</summary>
          <dl>
            {Object.entries(sample.settings).map(([name, value]) => (
              <>
                <dt>{name}</dt>
                <dd><code>{plain(value)}</code></dd>
              </>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}

/** The markup of a chat template, so that it can step back behind what was asked. */
function chatMarks(text: string) {
  return [...text.matchAll(/<\|[^|>\n]{1,40}\|>(?:(?:system|user|assistant|developer|tool)(?=\n))?|\[\/?INST\]|<\/?s>|<(?:start|end)_of_turn>(?:user|model)?/g)].slice(0, 400).map((match) => ({
    start: match.index,
    end: match.index + match[0].length,
    kind: "chat",
  }));
}

function Messages({ messages }: { messages: { role: string; text: string }[] }) {
  const last = messages.length - 1;
  const folded = messages.slice(0, -1).filter((message) => message.role !== "system");
  const system = messages.filter((message, at) => message.role === "system" && at !== last);
  const bubble = (message: { role: string; text: string }) => (
    <div class={`message ${message.role}`}>
      <span class="role">{plain(message.role)}</span>
      <Text text={message.text} />
    </div>
  );
  const own = messages.slice(messages.findLastIndex((message) => message.role === "user"));
  const shots = folded.filter((message) => !own.includes(message));
  return (
    <div class="messages">
      {system.map(bubble)}
      {shots.length > 0 && (
        <details>
          <summary>{shots.length} earlier messages</summary>
          {shots.map(bubble)}
        </details>
      )}
      {own.map(bubble)}
    </div>
  );
}

function Difference(props: { shown: Shown[]; pair: string[]; labels: string[]; set: (value: string) => void }) {
  const { shown, pair, labels } = props;
  const [a, b] = pair.map((label) => shown.find((one) => one.column.label === label)?.sample);
  const texts = [a, b].map((sample) => (sample?.prompts[0] ? promptText(sample.prompts[0]) : ""));
  const changes = useMemo(() => diff(texts[0], texts[1]), texts);
  const pick = (at: number) => (
    <select aria-label={at ? "Second format" : "First format"} value={pair[at]} onChange={(event) => props.set((at ? [pair[0], event.currentTarget.value] : [event.currentTarget.value, pair[1]]).join("~"))}>
      {labels.map((label) => <option value={label}>{label}</option>)}
    </select>
  );
  const isSame = changes.every((change) => change.kind === "same");
  return (
    <section class="panel difference">
      <header>
        <h2>Prompts</h2>
        {pick(0)}
        <button type="button" class="quiet" aria-label="Swap" title="Swap" onClick={() => props.set(`${pair[1]}~${pair[0]}`)}>⇄</button>
        {pick(1)}
        <p class="facts"><del>only {plain(pair[0])}</del> <ins>only {plain(pair[1])}</ins></p>
      </header>
      {isSame && <p class="note">Both prompts are the same, character by character.</p>}
      <div class="two">
        {[0, 1].map((side) => (
          <pre class="text" dir="auto" aria-label={`Prompt of ${pair[side]}`}>
            {changes.filter((change) => change.kind === "same" || change.kind === (side ? "in" : "out")).map((change) =>
              change.kind === "same" ? <span>{visible(change.text)}</span> : change.kind === "out" ? <del>{visible(change.text)}</del> : <ins>{visible(change.text)}</ins>,
            )}
          </pre>
        ))}
      </div>
    </section>
  );
}

const visible = (text: string): string => text.replace(hidden, shownChar);
