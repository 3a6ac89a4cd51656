/** Runs of nugget-eval: texts with their nuggets, the labels by judge and prompt, and what was quoted. */

import { useMemo, useState } from "preact/hooks";
import { get } from "./data";
import { go, link, type Route } from "./route";
import { command, count, counted, interval, percent, plain, short } from "./show";
import type { Estimate, Judged, JudgedNugget, Runs } from "./types";
import { Axis, Command, Failure, Interval, Loading, scaleOf, Text, useAnswer } from "./ui";

const LABELS: Record<string, { sign: string; word: string; kind: string }> = {
  support: { sign: "✓", word: "support", kind: "right" },
  partial_support: { sign: "◐", word: "partial", kind: "partly" },
  not_support: { sign: "✗", word: "no support", kind: "wrong" },
};
const MISSING = { sign: "∅", word: "missing", kind: "unread" };

function Label({ value, gold }: { value: string | null; gold?: string | null }) {
  const { sign, word, kind } = value === null ? MISSING : (LABELS[value] ?? MISSING);
  const isOff = gold !== null && gold !== undefined && value !== null && gold !== value;
  return (
    <span class={`state ${kind} ${isOff ? "off-gold" : ""}`} title={isOff ? `People said ${gold}` : undefined}>
      <b aria-hidden="true">{sign}</b>
      {word}
    </span>
  );
}

interface Side {
  label: string;
  key: string;
  judged: Judged;
}

export function JudgePage({ route, all }: { route: Route; all: Runs }) {
  const id = route.parts[0] ?? "";
  const run = all.runs.find((one) => one.id === id);
  const { value: sides, error } = useAnswer(async () => {
    const results = run?.results ?? [];
    return Promise.all(results.map(async (result) => ({ label: result.format, key: result.key, judged: await get<Judged>(`judge/${id}/${result.key}`) })));
  }, [id, run?.results.length]);
  if (!run) return <main><Failure text={`There is no run ${id} here.`} /></main>;
  if (error) return <main><Failure text={error} /></main>;
  if (!sides) return <main><Loading /></main>;
  const task = run.results[0]?.task ?? "";
  const only = route.query.get("only") ?? "";
  const unit = Number(route.query.get("unit") ?? 0);
  const measure = route.query.get("measure") ?? "";
  const set = (changes: Record<string, string | null>) => go(link("judge", route.parts, { only, unit: String(unit), measure, ...changes }), true);
  return (
    <main class="judge-page">
      <header class="top">
        <h1>{plain(run.model)}</h1>
        <p class="facts">{counted(sides[0]?.judged.units.length ?? 0, "text")} · {plain(task)}</p>
        <a class="button" href={link("items", [task], { runs: id, sort: sides.length > 1 ? "flips" : "" })}>{sides.length > 1 ? "Nuggets × prompts" : "All nuggets"}</a>
      </header>
      <Scores sides={sides} measure={measure} setMeasure={(name) => set({ measure: name })} />
      <Topics sides={sides} unit={unit} only={only} set={set} run={id} task={task} />
      <Command text={sides.length > 1 ? command("lm-eval", "compare", run.path) : command("nugget-eval", "score", run.path.replace(/summary\.json$/, "assignments.jsonl"), "--per_topic")} />
    </main>
  );
}

function Scores({ sides, measure, setMeasure }: { sides: Side[]; measure: string; setMeasure: (name: string) => void }) {
  const rows = sides.flatMap(({ label, judged }) =>
    judged.scores.flatMap((one) =>
      Object.entries(one.means).filter(([, mean]) => mean.value !== null).map(([measure, mean]) => ({ label, run: one.run_id, measure, mean })),
    ),
  );
  const measures = [...new Set(rows.map((row) => row.measure))];
  const chosen = measures.includes(measure) ? measure : (measures.find((name) => name === "vital_score") ?? measures[0]);
  const shown = rows.filter((row) => row.measure === chosen);
  const scale = scaleOf(shown.flatMap(({ mean }) => [mean.value, mean.low, mean.high]));
  const hasPeople = sides.some(({ judged }) => judged.agreement?.measures?.accuracy);
  if (rows.length === 0) return null;
  return (
    <section class="panel">
      <header>
        <h2>Scores</h2>
        <select aria-label="Measure" value={chosen} onChange={(event) => setMeasure(event.currentTarget.value)}>
          {measures.map((name) => <option value={name}>{name.replaceAll("_", " ")}</option>)}
        </select>
      </header>
      <div class="wide">
        <table class="results">
          <thead>
            <tr>
              <th scope="col">{sides.length > 1 ? "Prompt × format" : "Run"}</th>
              <th scope="col" class="num">Score</th>
              <th scope="col" class="ci">95 % CI</th>
              <th scope="col" class="plot"><Axis scale={scale} /></th>
              <th scope="col" class="num">Labelled</th>
              {hasPeople && <th scope="col" class="num">Agrees with people</th>}
            </tr>
          </thead>
          <tbody>
            {shown.map(({ label, run, mean }) => {
              const { judged } = sides.find((side) => side.label === label) as Side;
              const agreed = judged.agreement?.measures?.accuracy as Estimate | undefined;
              return (
                <tr>
                  <th scope="row">{sides.length > 1 ? plain(label) : ""} {run && <small>{plain(run)}</small>}</th>
                  <td class="num strong">{short(mean.value)}</td>
                  <td class="ci">{interval(mean.low, mean.high)}</td>
                  <td class="plot"><Interval scale={scale} value={mean.value} low={mean.low} high={mean.high} /></td>
                  <td class="num">{percent(judged.coverage?.share ?? null)}</td>
                  {hasPeople && <td class="num">{agreed ? short(agreed.value, 2) : ""}</td>}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

const FILTERS: [string, string][] = [
  ["", "All texts"],
  ["differs", "Labels differ"],
  ["gold", "Against people"],
  ["missing", "Missing labels"],
];

function columnsOf(sides: Side[]): { name: string; label: (at: number, nugget: number) => string | null }[] {
  const columns: { name: string; label: (at: number, nugget: number) => string | null }[] = [];
  for (const side of sides) {
    const several = side.judged.judges.length > 1;
    const name = sides.length > 1 ? side.label : several ? "combined" : (side.judged.judges[0] ?? "label");
    columns.push({ name, label: (at, nugget) => side.judged.units[at]?.nuggets[nugget]?.label ?? null });
    if (several)
      for (const judge of side.judged.judges)
        columns.push({ name: sides.length > 1 ? `${side.label} · ${judge}` : judge, label: (at, nugget) => side.judged.units[at]?.nuggets[nugget]?.votes[judge] ?? null });
  }
  return columns;
}

function Topics(props: { sides: Side[]; unit: number; only: string; set: (changes: Record<string, string | null>) => void; run: string; task: string }) {
  const { sides, only, set } = props;
  const units = sides[0]?.judged.units ?? [];
  const columns = useMemo(() => columnsOf(sides), [sides]);
  const list = useMemo(
    () =>
      units
        .map((_, at) => at)
        .filter((at) =>
          units[at].nuggets.some((nugget, place) => {
            const labels = columns.map((column) => column.label(at, place));
            if (only === "differs") return new Set(labels).size > 1;
            if (only === "gold") return nugget.gold !== null && labels.some((label) => label !== nugget.gold);
            return only === "missing" ? labels.includes(null) : true;
          }),
        ),
    [sides, only],
  );
  const at = list.includes(props.unit) ? props.unit : (list[0] ?? -1);
  return (
    <>
      <div class="query" role="group" aria-label="Which texts">
        {FILTERS.map(([value, text]) => (
          <button type="button" class={only === value ? "button on" : "button quiet"} aria-pressed={only === value} onClick={() => set({ only: value, unit: null })}>{text}</button>
        ))}
        <span class="facts">{count(list.length)} of {count(units.length)}</span>
      </div>
      {at < 0 ? (
        <p class="empty">No text fits this filter.</p>
      ) : (
        <div class="topics">
          <ol class="units" aria-label="Texts">
            {list.slice(0, 2000).map((place) => {
              const one = units[place];
              return (
                <li>
                  <button type="button" data-stop class={place === at ? "on" : ""} aria-current={place === at} onClick={() => set({ unit: String(place) })}>
                    <b>{plain(one.qid)}</b> <small>{plain(one.unit)}</small>
                    <span dir="auto">{plain(one.query)}</span>
                    <i class="dots">{one.nuggets.map((_, nugget) => <i class={`d-${columns[0].label(place, nugget) ?? "missing"}`} />)}</i>
                  </button>
                </li>
              );
            })}
          </ol>
          <Unit {...props} at={at} columns={columns} />
        </div>
      )}
    </>
  );
}

function Unit({ sides, at, columns, run, task }: { sides: Side[]; at: number; columns: ReturnType<typeof columnsOf>; run: string; task: string }) {
  const unit = sides[0].judged.units[at];
  const [focus, setFocus] = useState(-1);
  const quoted = sides.flatMap((side) => side.judged.units[at]?.nuggets ?? []);
  const marks = (nuggets: JudgedNugget[]) => {
    const found: { start: number; end: number; kind: string; title: string }[] = [];
    nuggets.forEach((nugget) => {
      const place = unit.nuggets.findIndex((one) => one.text === nugget.text);
      for (const [start, end] of nugget.spans)
        if (!found.some((one) => one.start < end && start < one.end)) found.push({ start, end, kind: `quote ${focus >= 0 && place !== focus ? "dim" : ""}`, title: `Quoted for: ${nugget.text}` });
    });
    return found;
  };
  const shown = focus >= 0 ? [...quoted.filter((nugget) => nugget.text === unit.nuggets[focus]?.text), ...quoted] : quoted;
  return (
    <div class="unit">
      <section class="panel">
        <header><h2 dir="auto">{plain(unit.query) || plain(unit.qid)}</h2><p class="facts">{[unit.qid, unit.unit].filter(Boolean).map(plain).join(" · ")}</p></header>
        {unit.passage ? <Text text={unit.passage} marks={marks(shown)} kind="passage" /> : <p class="empty">The text is not stored.</p>}
        {quoted.some((nugget) => nugget.spans.length > 0) && <p class="facts">Marked: what the judge quoted. Point at a nugget to see only its quotations.</p>}
      </section>
      <section class="panel">
        <div class="wide">
          <table class="results nuggets">
            <thead>
              <tr>
                <th scope="col">Nugget</th>
                {columns.map((column) => <th scope="col">{plain(column.name)}</th>)}
                {unit.nuggets.some((nugget) => nugget.gold) && <th scope="col">People</th>}
              </tr>
            </thead>
            <tbody>
              {unit.nuggets.map((nugget, place) => (
                <tr onMouseEnter={() => setFocus(place)} onMouseLeave={() => setFocus(-1)} onFocusCapture={() => setFocus(place)}>
                  <th scope="row">
                    <a href={link("item", [task, nugget.doc], { runs: run })} title="The reply and how it was parsed" dir="auto">{plain(nugget.text)}</a>
                    {nugget.importance && <small>{nugget.importance}</small>}
                    {nugget.quote && (
                      <p class="quoted" dir="auto">
                        “{plain(nugget.quote)}” {nugget.verdict === "not_found" && <span class="tag warn">not in the text</span>}
                        {nugget.rationale && <> {plain(nugget.rationale)}</>}
                      </p>
                    )}
                  </th>
                  {columns.map((column) => <td><Label value={column.label(at, place)} gold={nugget.gold} /></td>)}
                  {unit.nuggets.some((one) => one.gold) && <td>{nugget.gold && <Label value={nugget.gold} />}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </section>
    </div>
  );
}
