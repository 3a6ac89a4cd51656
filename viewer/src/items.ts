/** The items of several results side by side: one row for each doc, one column for each result. */

import { get, once } from "./data";
import type { Coded, Columns, Result, Run, Texts } from "./types";

/** What tells docs apart: their number and, if there are several runs, a few digits of their hash. */
export type Key = number | string;

/** One result: what is known of each of its docs. Positions are those of `states`. */
export class Column {
  label = "";
  /** Model and format, if the label names both; else an empty text and the label. */
  heading: [string, string] = ["", ""];
  states: string[] = [];
  docs: number[] = [];
  place = new Map<number, number>();
  lines: number[] = [];
  answers: string[] = [];
  replies: string[] = [];
  lengths: number[] = [];
  why: string[] = [];
  rules: string[] = [];
  next = 0;
  isDone = false;
  rest = 0;
  problem: string | null = null;

  constructor(
    readonly run: Run,
    readonly result: Result,
    readonly data: Columns,
    readonly byHash: boolean,
  ) {
    const { docs } = data;
    const count = typeof docs === "number" ? docs : docs.length;
    this.docs = typeof docs === "number" ? Array.from({ length: count }, (_, at) => at) : docs.slice();
    this.states = data.states.split("");
    this.docs.forEach((doc, at) => this.place.set(doc, at));
    this.problem = data.problem;
    this.isDone = data.problem !== null;
  }

  keyAt(at: number): Key {
    const doc = this.docs[at];
    return this.byHash ? `${doc}:${this.data.hashes.slice(8 * at, 8 * at + 8)}` : doc;
  }

  /** Take the first words of some samples. */
  add(texts: Texts, table: Items): void {
    for (let row = 0; row < texts.doc.length; row++) {
      const doc = texts.doc[row];
      if (doc === null) continue;
      let at = this.place.get(doc);
      if (at === undefined) {
        at = this.docs.length;
        this.docs.push(doc);
        this.states.push("m");
        this.place.set(doc, at);
      }
      if (texts.states) this.states[at] = texts.states[row];
      this.lines[at] = typeof texts.line === "number" ? texts.line + row : texts.line[row];
      this.answers[at] = texts.a[row];
      this.replies[at] = texts.r[row];
      this.lengths[at] = texts.n[row];
      this.why[at] = texts.why.names[texts.why.codes[row]];
      this.rules[at] = texts.rule.names[texts.rule.codes[row]];
      table.describe(this.keyAt(at), doc, texts.q[row], texts.g[row], texts.fields, row);
    }
    for (const row of texts.missing) {
      const at = this.place.get(texts.doc[row] as number);
      if (at !== undefined) this.states[at] = "m";
    }
    this.next = texts.next;
    this.isDone = texts.done;
    this.rest = texts.rest;
  }
}

/** Formats name the right answer by its label or by its text: `A · Rome`. */
function bothGolds(known: string, gold: string): string {
  const parts = known ? known.split(" · ") : [];
  if (!gold || parts.includes(gold) || parts.length > 1) return known;
  if (parts.length === 0) return gold;
  const isLabel = (text: string) => /^[A-Z]{1,2}$/.test(text);
  const order = (a: string, b: string) => Number(isLabel(b)) - Number(isLabel(a)) || a.length - b.length;
  return [known, gold].sort(order).join(" · ");
}

/** All columns, aligned by doc. */
export class Items {
  keys: Key[] = [];
  docs: number[] = [];
  row = new Map<Key, number>();
  questions: string[] = [];
  golds: string[] = [];
  fields = new Map<string, { names: string[]; code: Map<string, number>; codes: number[] }>();
  /** For each column, the position of each row's doc in it; −1 if it was not asked. */
  at: number[][] = [];
  version = 0;

  constructor(readonly columns: Column[]) {
    for (const column of columns) {
      for (let at = 0; at < column.docs.length; at++) this.rowOf(column.keyAt(at), column.docs[at]);
      const { clusters, parts } = column.data;
      const coded: [string, Coded][] = Object.entries(parts);
      if (clusters) coded.push(["cluster", clusters]);
      for (const [name, values] of coded)
        values.codes.forEach((code, at) => this.setField(name, this.row.get(column.keyAt(at)) as number, values.names[code]));
    }
    this.align();
  }

  rowOf(key: Key, doc: number): number {
    let row = this.row.get(key);
    if (row === undefined) {
      row = this.keys.length;
      this.row.set(key, row);
      this.keys.push(key);
      this.docs.push(doc);
    }
    return row;
  }

  setField(name: string, row: number, value: string): void {
    let field = this.fields.get(name);
    if (!field) {
      field = { names: [], code: new Map(), codes: [] };
      this.fields.set(name, field);
    }
    let code = field.code.get(value);
    if (code === undefined) {
      code = field.names.length;
      field.names.push(value);
      field.code.set(value, code);
    }
    field.codes[row] = code;
  }

  describe(key: Key, doc: number, question: string, gold: string, fields: Record<string, Coded>, at: number): void {
    const row = this.rowOf(key, doc);
    this.questions[row] ??= question;
    this.golds[row] = bothGolds(this.golds[row] ?? "", gold);
    for (const [name, coded] of Object.entries(fields)) this.setField(name, row, coded.names[coded.codes[at]]);
  }

  /** Find each row's position in each column again, after docs were added. */
  align(): void {
    this.at = this.columns.map((column) => {
      const places = new Array<number>(this.keys.length).fill(-1);
      for (let at = 0; at < column.docs.length; at++) {
        const row = this.row.get(column.keyAt(at));
        if (row !== undefined) places[row] = at;
      }
      return places;
    });
    this.version++;
  }

  state(column: number, row: number): string {
    const at = this.at[column][row];
    return at < 0 || at === undefined ? "" : this.columns[column].states[at];
  }

  score(column: number, row: number): number | null {
    const at = this.at[column][row];
    if (at === undefined || at < 0) return null;
    const { scores } = this.columns[column].data;
    if (scores) return scores[at] ?? null;
    const state = this.columns[column].states[at];
    return state === "r" ? 1 : state === "w" || state === "u" ? 0 : null;
  }

  /** How evenly the columns disagree: 0 if all are right or none is, highest at half and half. */
  flips(row: number): number {
    let right = 0;
    let asked = 0;
    let low = Infinity;
    let high = -Infinity;
    for (let column = 0; column < this.columns.length; column++) {
      const score = this.score(column, row);
      if (score === null) continue;
      asked++;
      if (score >= 1) right++;
      low = Math.min(low, score);
      high = Math.max(high, score);
    }
    if (asked < 2 || high - low < 1e-12) return 0;
    return Math.max(Math.min(right, asked - right), Math.min(1, high - low));
  }

  line(column: number, row: number): number | undefined {
    const at = this.at[column][row];
    return at === undefined || at < 0 ? undefined : this.columns[column].lines[at];
  }
}

/** The results of a task in these runs, as columns with labels that tell them apart. */
export async function openItems(runs: Run[], task: string): Promise<Items> {
  const chosen = runs.flatMap((run) => run.results.filter((one) => one.task === task).map((result) => ({ run, result })));
  const data = await Promise.all(
    chosen.map(({ run, result }) => {
      const address = `columns/${run.id}/${result.key}`;
      return run.kind === "live" ? once<Columns>(address) : get<Columns>(address);
    }),
  );
  const columns = chosen.map(({ run, result }, at) => new Column(run, result, data[at], runs.length > 1));
  for (const [at, label] of labels(chosen).entries()) {
    const model = chosen[at].run.called ?? chosen[at].run.model;
    columns[at].label = label;
    columns[at].heading = label.startsWith(`${model} `) ? [model, label.slice(model.length + 1)] : ["", label];
  }
  return new Items(columns);
}

/** What tells results of one task apart, as `lm-eval compare` names them: `mcqa`, `mcqa, 5-shot`, `gpt`. */
export function labels(chosen: { run: Run; result: Result }[]): string[] {
  const models = new Set(chosen.map(({ run }) => run.called ?? run.model));
  const conditions = new Set(chosen.map(({ result }) => result.format));
  const shots = new Map<string, Set<number | null>>();
  for (const { result } of chosen) shots.set(result.format, (shots.get(result.format) ?? new Set()).add(result.shots ?? null));
  const hasShots = [...shots.values()].some((some) => some.size > 1);
  const condition = (result: Result) => (hasShots && result.shots !== null && result.shots !== undefined ? `${result.format}, ${result.shots}-shot` : result.format);
  const parts = chosen.map(({ run, result }) => {
    if (models.size === 1) return condition(result);
    return conditions.size === 1 && !hasShots ? (run.called ?? run.model) : `${run.called ?? run.model} ${condition(result)}`;
  });
  const seen = new Map<string, number>();
  return parts.map((label) => {
    const times = (seen.get(label) ?? 0) + 1;
    seen.set(label, times);
    return times === 1 ? label : `${label} (${times})`;
  });
}

/** Reads first words chunk by chunk; `changed` is called after each. */
export async function loadTexts(items: Items, changed: () => void, isCurrent: () => boolean): Promise<void> {
  const next = async (column: Column) => {
    const address = `texts/${column.run.id}/${column.result.key}/${column.next}`;
    try {
      const texts = await once<Texts>(address);
      if (!isCurrent()) return;
      const known = items.keys.length;
      const docs = column.docs.length;
      column.add(texts, items);
      if (items.keys.length !== known || column.docs.length !== docs) items.align();
      else items.version++;
    } catch (error) {
      column.problem = (error as Error).message;
      column.isDone = true;
    }
  };
  // The beginning of every column first: these are the rows in view.
  await Promise.all(items.columns.filter((column) => !column.isDone).map(next));
  changed();
  let last = performance.now();
  let isNew = false;
  for (const column of items.columns)
    while (!column.isDone && isCurrent()) {
      const before = column.next;
      await next(column);
      isNew = true;
      if (performance.now() - last > REDRAW_MS) {
        changed();
        [last, isNew] = [performance.now(), false];
      }
      if (column.data.live && column.next === before) break;
    }
  if (isNew) changed();
}

/** While first words arrive, the page is drawn again after this time, not for every chunk. */
const REDRAW_MS = 600;
