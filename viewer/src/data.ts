/** Where answers come from: the server, files beside an exported page, or the page itself. */

import type { Runs } from "./types";

type Carrier = { kind: "http" } | { kind: "folder" } | { kind: "file"; data: Record<string, string> };

function block(id: string): string | null {
  return document.getElementById(id)?.textContent ?? null;
}

function carrier(): Carrier {
  const data = block("lm-eval-data");
  if (data !== null) return { kind: "file", data: JSON.parse(data) as Record<string, string> };
  return block("lm-eval-folder") !== null ? { kind: "folder" } : { kind: "http" };
}

const from = carrier();
export const isServed = from.kind === "http";
/** Samples in a block: an export groups them, the server sends one at a time. */
export const blocks: Record<string, number[]> = JSON.parse(block("lm-eval-blocks") ?? "{}");

const known = new Map<string, Promise<unknown>>();
const waiting = new Map<string, (text: string) => void>();
(window as unknown as Record<string, unknown>).lmEvalData = (name: string, text: string) => {
  waiting.get(name)?.(text);
  waiting.delete(name);
};

export class Unavailable extends Error {}

async function unpacked(text: string): Promise<unknown> {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function notThere(address: string): Unavailable {
  const what = address.startsWith("compare/") ? "this comparison" : "this";
  return new Unavailable(`This export does not hold ${what}. \`lm-eval view\` on the folder of the runs shows it.`);
}

function fromFolder(address: string): Promise<unknown> {
  const name = address.replaceAll("/", "_").replaceAll("+", "-");
  return new Promise<string>((done, fail) => {
    const script = document.createElement("script");
    waiting.set(name, (text) => {
      script.remove();
      done(text);
    });
    script.onerror = () => {
      script.remove();
      fail(notThere(address));
    };
    script.src = `data/${name}.js`;
    document.head.append(script);
  }).then(unpacked);
}

async function fromServer(address: string): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(`data/${address}`);
  } catch {
    throw new Unavailable("The server does not answer. Is `lm-eval view` still running?");
  }
  const value = (await response.json()) as { error?: string };
  if (!response.ok) throw new Unavailable(value.error ?? `The server answered ${response.status}.`);
  return value;
}

function ask(address: string): Promise<unknown> {
  if (from.kind === "http") return fromServer(address);
  if (from.kind === "folder") return fromFolder(address);
  const text = from.data[address];
  return text === undefined ? Promise.reject(notThere(address)) : unpacked(text);
}

/** The answer at an address; asked once and kept, unless `fresh`. */
export function get<T>(address: string, fresh = false): Promise<T> {
  let answer = known.get(address);
  if (answer === undefined || fresh) {
    answer = ask(address);
    known.set(address, answer);
    answer.catch(() => known.delete(address));
  }
  return answer as Promise<T>;
}

/** As `get`, without keeping the answer. */
export function once<T>(address: string): Promise<T> {
  return ask(address) as Promise<T>;
}

const MOST_SAMPLES = 64;
const held: string[] = [];

/** The whole sample in a line of a result; the last few are kept. */
export async function sampleAt<T>(run: string, key: string, line: number): Promise<T | undefined> {
  const starts = blocks[`${run}/${key}`];
  let first = line;
  if (starts !== undefined) {
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (starts[middle] <= line) low = middle;
      else high = middle - 1;
    }
    first = starts[low];
  }
  const address = `samples/${run}/${key}/${first}`;
  if (!held.includes(address)) {
    held.push(address);
    if (held.length > MOST_SAMPLES) known.delete(held.shift() as string);
  }
  const found = await get<T[]>(address);
  return found[line - first];
}

export const runs = (fresh = false): Promise<Runs> => get<Runs>("runs", fresh);
