/** What changes from one text to another, word by word. */

export interface Change {
  kind: "same" | "out" | "in";
  text: string;
}

const MOST_CELLS = 6_000_000;

const words = (text: string): string[] => text.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
const lines = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+/g) ?? [];

export function diff(before: string, after: string): Change[] {
  let a = words(before);
  let b = words(after);
  if (a.length * b.length > MOST_CELLS) [a, b] = [lines(before), lines(after)];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const changes: Change[] = [];
  const add = (kind: Change["kind"], text: string) => {
    if (!text) return;
    const last = changes[changes.length - 1];
    if (last?.kind === kind) last.text += text;
    else changes.push({ kind, text });
  };
  add("same", a.slice(0, start).join(""));
  middle(a.slice(start, a.length - end), b.slice(start, b.length - end), add);
  add("same", end ? a.slice(a.length - end).join("") : "");
  return joined(changes);
}

function middle(a: string[], b: string[], add: (kind: Change["kind"], text: string) => void): void {
  if (a.length * b.length > MOST_CELLS || !a.length || !b.length) {
    add("out", a.join(""));
    add("in", b.join(""));
    return;
  }
  // The longest common subsequence, from the end, so that it can be followed from the start.
  const width = b.length + 1;
  const best = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      best[i * width + j] =
        a[i] === b[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      add("same", a[i]);
      i++;
      j++;
    } else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) add("out", a[i++]);
    else add("in", b[j++]);
  }
  add("out", a.slice(i).join(""));
  add("in", b.slice(j).join(""));
}

/** Changes that only white space keeps apart become one, which reads better than confetti. */
function joined(changes: Change[]): Change[] {
  const result: Change[] = [];
  let out = "";
  let into = "";
  const flush = () => {
    if (out) result.push({ kind: "out", text: out });
    if (into) result.push({ kind: "in", text: into });
    out = "";
    into = "";
  };
  changes.forEach((change, place) => {
    const next = changes[place + 1];
    if (change.kind === "out") out += change.text;
    else if (change.kind === "in") into += change.text;
    else if ((out || into) && next && /^[ \t]*$/.test(change.text)) {
      out += change.text;
      into += change.text;
    } else {
      flush();
      result.push({ ...change });
    }
  });
  flush();
  return result;
}
