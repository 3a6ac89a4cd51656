/** The answers of the data contract (src/lm_eval/viewer/contract.py), as the pages use them. */

export interface Score {
  metric: string;
  value: number | null;
  low: number | null;
  high: number | null;
  by: string;
}

export interface Result extends Score {
  name: string;
  key: string;
  task: string;
  format: string;
  shots: number | null;
  n: number | null;
  of: number | null;
  chance: number | null;
  higher: boolean;
  others: Score[];
  share_read: number | null;
  if_read: number | null;
  unread: Record<string, number>;
  missing: number;
  skipped: Record<string, number>;
  choices: boolean | null;
  chosen: Record<string, { chosen: number; right: number }> | null;
  usage: Record<string, number>;
  notes: string[];
  yaml: string | null;
}

export interface Group extends Score {
  name: string;
  tasks: string[];
}

export interface Run {
  id: string;
  kind: "run" | "judge" | "live";
  running?: boolean;
  model: string;
  /** The model's name beside those of other runs: `gpt (temperature=1)`; only in the list of runs. */
  called?: string;
  path: string;
  place: string;
  date: number | null;
  seconds: number | null;
  cost: Record<string, number | string | null> | null;
  version: { wrote: string | null; newer: boolean };
  harness: boolean;
  results: Result[];
  groups: Group[];
  shots: number[];
}

export interface RunPage extends Run {
  config: [string, string][];
  parts: Part[];
  answers: { total?: number; reused?: number } | null;
  chat: boolean;
  git: string | null;
}

export interface Part {
  name: string;
  field: string;
  rows: { part: string; n: number | null; value: number | null; low: number | null; high: number | null }[];
}

export interface Runs {
  given: string[];
  version: string;
  runs: Run[];
  problems: { path: string; message: string }[];
  reasons: Record<string, string>;
}

export interface Coded {
  codes: number[];
  names: string[];
}

export interface Columns {
  run: string;
  key: string;
  name: string;
  metric: string;
  filter: string;
  higher: boolean;
  live: boolean;
  missing: number;
  docs: number | number[];
  hashes: string;
  states: string;
  scores: (number | null)[] | null;
  share: boolean;
  clusters: Coded | null;
  parts: Record<string, Coded>;
  problem: string | null;
}

export interface Texts {
  line: number | number[];
  doc: (number | null)[];
  q: string[];
  r: string[];
  n: number[];
  a: string[];
  g: string[];
  why: Coded;
  rule: Coded;
  missing: number[];
  fields: Record<string, Coded>;
  states: string | null;
  next: number;
  done: boolean;
  rest: number;
}

export interface Prompt {
  text?: string;
  start?: number;
  messages?: { role: string; text: string }[];
}

export interface Choice {
  text: string;
  logprob: number;
  greedy: boolean | null;
  tokens: number | null;
  gold: boolean;
  picked: boolean;
}

export interface Reply {
  text: string;
  span: [number, number] | null;
  rule: string | null;
  answer: string | null;
  no_answer: string | null;
  finish: string | null;
  reasoning: string | null;
}

export interface Sample {
  doc: number | null;
  fields: [string, string][];
  target: string;
  gold: string;
  answer: string;
  filter: string;
  missing: string | null;
  redacted: boolean;
  metrics: [string, number | null][];
  shots: number;
  prompts: Prompt[];
  settings: Record<string, string>;
  choices: Choice[];
  replies: Reply[];
  options: string[];
  started: string;
}

export interface Estimate {
  value: number;
  stderr: number | null;
  low: number | null;
  high: number | null;
  n: number;
  method: string;
}

export interface Paired {
  n: number;
  difference: Estimate;
  wins: number;
  losses: number;
  p: number;
  test: string;
}

export interface Pair {
  first: string;
  second: string;
  result: Paired;
  p_adjusted: number;
  both_read: Paired | null;
  p_both_read: number | null;
  counts: [number, number];
  gap_read: number;
  asks_same: boolean;
  verdict: "real" | "confounded" | "inconclusive" | "no difference";
}

export interface CompareRow {
  label: string;
  model: string;
  format: string;
  metric: string;
  score: Estimate;
  share_read: number | null;
  score_read: Estimate | null;
  bounds: [number, number] | null;
  choices: string | null;
  missing: number;
}

export interface Block {
  task: string;
  compares: "formats" | "conditions" | "models";
  within: string;
  default: string;
  family: string;
  method: string;
  num_items: number;
  num_clusters: number | null;
  is_binary: boolean;
  higher_is_better: boolean;
  steady: [number, number] | null;
  left_out: Record<string, number> | null;
  rows: CompareRow[];
  pairs: Pair[];
  spread: {
    value: number;
    null_95: number;
    null_mean: number;
    p: number;
    split_half: number | null;
  } | null;
  title: string;
  findings: { label: string; lines: string[] }[];
  sentences: string[];
}

export interface Compared {
  blocks: Block[];
  notes: string[];
  problem: string | null;
}

export interface JudgedNugget {
  doc: number;
  text: string;
  importance: string | null;
  label: string | null;
  gold: string | null;
  votes: Record<string, string | null>;
  quote: string | null;
  verdict: string | null;
  rationale: string | null;
  spans: [number, number][];
}

export interface Judged {
  judges: string[];
  metric: string;
  scores: { run_id: string; means: Record<string, Estimate & { value: number | null }> }[];
  agreement: { measures?: Record<string, Estimate> } | null;
  coverage: { labelled: number; total: number; share: number } | null;
  labels: Record<string, number>;
  notes: string[];
  units: { qid: string; unit: string; query: string; passage: string; nuggets: JudgedNugget[] }[];
}
