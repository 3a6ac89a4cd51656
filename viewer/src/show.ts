/** Numbers and texts as people read them. */

/** As Python rounds: .3125 is .312, the even one of two that are equally near. */
function fixed(size: number, digits: number): string {
  const eighths = size * 2 ** (digits + 1);
  if (Number.isInteger(eighths) && eighths % 2 === 1) {
    const below = Math.floor(size * 10 ** digits);
    return ((below + (below % 2)) / 10 ** digits).toFixed(digits);
  }
  return size.toFixed(digits);
}

/** `.525`, `1.00`, `−.03`: a share loses the zero in front of its point, as in the terminal. */
export function short(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  const text =
    size >= 1000
      ? Math.round(size).toLocaleString("en")
      : fixed(size, size < 10 ? digits : Math.max(1, digits - 1)).replace(/^0\./, ".");
  return value < 0 && Number(size.toFixed(digits)) !== 0 ? `−${text}` : text;
}

export function interval(low: number | null, high: number | null): string {
  if (low === null || high === null) return "";
  const digits = high - low >= 0.05 ? 2 : 3;
  return `[${short(low, digits)}, ${short(high, digits)}]`;
}

export function pValue(p: number): string {
  if (p < 0.001) return "p < .001";
  if (p >= 0.995) return "p = 1";
  return `p = ${short(p, p < 0.1 ? 3 : 2)}`;
}

export function percent(share: number | null): string {
  if (share === null) return "";
  if (share > 0 && share < 0.005) return "< 1 %";
  if (share < 1 && share > 0.995) return "> 99 %";
  return `${Math.round(share * 100)} %`;
}

export const count = (value: number): string => value.toLocaleString("en");

export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.05) return "< 0.1 s";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** `today 14:05`, `3 Nov 14:05`, `3 Nov 2025`. */
export function day(time: number | null): string {
  if (time === null) return "";
  const date = new Date(time * 1000);
  const now = new Date();
  const clock = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === now.toDateString()) return `today ${clock}`;
  const name = date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return date.getFullYear() === now.getFullYear() ? `${name} ${clock}` : `${name} ${date.getFullYear()}`;
}

/** Why nothing was parsed → words for it, as the terminal says them; filled by the list of runs. */
export const reasons: Record<string, string> = {};
export const reason = (name: string): string => reasons[name] ?? name.replaceAll("_", " ");

/** A word for a shell. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

export const command = (...words: string[]): string => words.map(quoted).join(" ");

// Characters that are invisible, or that change the direction of what follows.
// biome-ignore lint: control characters are the point
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/;
export const hidden = new RegExp(HIDDEN.source, "g");

/** A name for a hidden character: `␀`, `␛`, `U+202E`. */
export function shown(char: string): string {
  const code = char.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** One line of text in which nothing is hidden. */
export function plain(text: string): string {
  return text.replace(/\s+/g, " ").replace(hidden, shown);
}
