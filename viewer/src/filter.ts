/** What people type to choose items: `cot:wrong mcqa:right subject:logic "young dog" flips`. */

import type { Items } from "./items";

export interface Token {
  key: string;
  value: string;
  text: string;
}

/** What can be asked of an item → the states that it may have. */
const WORDS: Record<string, string[]> = {
  right: ["r"],
  wrong: ["w"],
  partly: ["p"],
  parsed: ["r", "w", "p", "n"],
  not_parsed: ["u"],
  missing: ["m"],
  not_right: ["w", "p", "n", "u", "m", "."],
  asked: ["r", "w", "p", "n", "u", "m", "."],
};

/** The parts of a query; quotes hold words together. */
export function tokens(query: string): Token[] {
  const parts = query.match(/(?:"[^"]*"|[^\s":]+):(?:"[^"]*"|\S+)|"[^"]*"|\S+/g) ?? [];
  return parts.map((text) => {
    const match = /^(?:"([^"]*)"|([^\s":<>]+))(:|>|<)("?)(.*?)\4$/.exec(text);
    if (match && match[5]) return { key: (match[1] ?? match[2]) + (match[3] === ":" ? "" : match[3]), value: match[5], text };
    return { key: "", value: text.replace(/^"|"$/g, ""), text };
  });
}

export function quote(value: string): string {
  return /[\s":]/.test(value) || value === "" ? `"${value.replaceAll('"', "")}"` : value;
}

export const token = (key: string, value: string): string => `${quote(key)}:${quote(value)}`;

/** The query with a token added, or without it if it was there. Tokens of the same key are replaced. */
export function toggled(query: string, key: string, value: string): string {
  const known = tokens(query);
  const text = token(key, value);
  const isThere = known.some((token) => token.text === text);
  const rest = known.filter((token) => token.key !== key).map((token) => token.text);
  return [...rest, ...(isThere ? [] : [text])].join(" ");
}

export const has = (query: string, key: string, value: string): boolean =>
  tokens(query).some((token) => token.key === key && token.value === value);

type Test = (row: number) => boolean;

/** The rows that a query keeps, in order. `unknown` holds the parts that name no column or field. */
export function filtered(items: Items, query: string): { rows: number[]; unknown: string[] } {
  const unknown: string[] = [];
  const tests: Test[] = [];
  for (const token of tokens(query)) {
    const test = testOf(items, token);
    if (test) tests.push(test);
    else unknown.push(token.text);
  }
  const rows: number[] = [];
  for (let row = 0; row < items.keys.length; row++) if (tests.every((test) => test(row))) rows.push(row);
  return { rows, unknown };
}

function testOf(items: Items, { key, value }: Token): Test | null {
  if (!key) return value === "flips" ? (row) => items.flips(row) > 0 : contains(items, value);
  const column = items.columns.findIndex((one) => one.label === key);
  if (column >= 0) {
    const states = WORDS[value];
    return states === undefined ? null : (row) => states.includes(items.state(column, row));
  }
  const field = items.fields.get(key);
  if (field) {
    const code = field.code.get(value);
    return (row) => code !== undefined && field.codes[row] === code;
  }
  const any = (test: (column: number, at: number) => boolean): Test => (row) =>
    items.columns.some((_, one) => {
      const at = items.at[one][row];
      return at >= 0 && test(one, at);
    });
  const columns = items.columns;
  if (key === "any" && value in WORDS) return any((one, at) => WORDS[value].includes(columns[one].states[at]));
  if (key === "rule") return any((one, at) => columns[one].rules[at] === value);
  if (key === "why") return any((one, at) => (columns[one].why[at] ?? "") === value);
  if (key === "answer") return any((one, at) => columns[one].answers[at] === value);
  if (key === "gold") return (row) => (items.golds[row] ?? "").split(" · ").includes(value);
  if (key === "doc") return (row) => String(items.docs[row]) === value;
  const size = Number(value);
  if (key === "length>" && Number.isFinite(size)) return any((one, at) => columns[one].lengths[at] > size);
  if (key === "length<" && Number.isFinite(size)) return any((one, at) => columns[one].lengths[at] < size);
  return null;
}

function contains(items: Items, value: string): Test {
  const wanted = value.toLowerCase();
  return (row) => {
    if (items.questions[row]?.toLowerCase().includes(wanted)) return true;
    for (let one = 0; one < items.columns.length; one++) {
      const at = items.at[one][row];
      const column = items.columns[one];
      if (at >= 0 && (column.replies[at]?.toLowerCase().includes(wanted) || column.answers[at]?.toLowerCase().includes(wanted)))
        return true;
    }
    return false;
  };
}

export type Sort = { by: string; down: boolean };

/** The rows in the order that was asked for; rows that tie stay in the order of their docs. */
export function sorted(items: Items, rows: number[], sort: Sort): number[] {
  const value = valueOf(items, sort.by);
  if (!value) return sort.down ? [...rows].reverse() : rows;
  const known = new Map(rows.map((row) => [row, value(row)]));
  const sign = sort.down ? -1 : 1;
  return [...rows].sort((a, b) => sign * ((known.get(a) as number) - (known.get(b) as number)) || a - b);
}

const RANK: Record<string, number> = { r: 5, p: 4, n: 3, w: 2, u: 1, m: 0, ".": -1, "": -2 };

function valueOf(items: Items, by: string): ((row: number) => number) | null {
  if (by === "doc" || !by) return null;
  if (by === "flips") return (row) => items.flips(row);
  if (by === "length") {
    return (row) =>
      items.columns.reduce((most, column, one) => Math.max(most, column.lengths[items.at[one][row]] ?? 0), 0);
  }
  const column = items.columns.findIndex((one) => one.label === by);
  if (column < 0) return null;
  return (row) => RANK[items.state(column, row)] + (items.score(column, row) ?? 0) / 2;
}
