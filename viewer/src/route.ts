/** The page and its state, kept in the address: `#/items/demo_mcq?runs=1f0c2a9b&q=cot:wrong`. */

import { useEffect, useState } from "preact/hooks";

export interface Route {
  page: string;
  parts: string[];
  query: URLSearchParams;
}

/** A part of an address, decoded; unchanged if its percent signs encode nothing. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function parse(): Route {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page, ...parts] = path.split("/").map(decoded);
  return { page: page || "runs", parts, query: new URLSearchParams(query ?? "") };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(parse);
  useEffect(() => {
    const update = () => setRoute(parse());
    addEventListener("hashchange", update);
    addEventListener("popstate", update);
    return () => {
      removeEventListener("hashchange", update);
      removeEventListener("popstate", update);
    };
  }, []);
  return route;
}

type Query = Record<string, string | null | undefined>;

/** The address of a page; empty values are left out. */
export function link(page: string, parts: (string | number)[] = [], query: Query = {}): string {
  const path = [page, ...parts.map((part) => encodeURIComponent(String(part)))].join("/");
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const text = search.toString().replaceAll("%3A", ":").replaceAll("%40", "@");
  return `#/${path}${text ? `?${text}` : ""}`;
}

export function go(address: string, replace = false): void {
  if (address === location.hash) return;
  if (replace) {
    history.replaceState(null, "", address);
    dispatchEvent(new PopStateEvent("popstate"));
  } else location.hash = address;
}

/** Several ids in one value, `1f0c2a9b.77aa0b12`. */
export const ids = (value: string | null): string[] => (value ?? "").split(".").filter(Boolean);

/** Whether a key is for the page: not typed into a field, not part of a shortcut, no dialog open. */
export function isFree(event: KeyboardEvent): boolean {
  const isTyping = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
  return !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey && !document.querySelector("dialog[open]");
}
