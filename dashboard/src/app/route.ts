/** Addresses of the console's pages: /dashboard/models/digits/samples?label=3. */

export const HOME = "/dashboard";

export interface Route {
  /** The parts of the path below /dashboard. */
  parts: string[];
  query: URLSearchParams;
}

export function routeOf({ pathname, search }: { pathname: string; search: string }): Route {
  const rest = pathname.startsWith(HOME) ? pathname.slice(HOME.length) : "";
  return { parts: rest.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(search) };
}

/** The address of a page. Parameters that are null or empty are left out. */
export function to(
  parts: readonly (string | number)[],
  query: Record<string, string | number | null> = {},
): string {
  const path = [HOME, ...parts.map((part) => encodeURIComponent(part))].join("/");
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length === 0 ? path : `${path}?${text}`;
}

/** Where a click on a link leads within the console, null if the browser should follow it. */
export function followed(event: MouseEvent): string | null {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (link === null || !isPlain || link.target !== "" || link.hasAttribute("download")) return null;
  const isOurs = link.origin === location.origin && `${link.pathname}/`.startsWith(`${HOME}/`);
  return isOurs ? `${link.pathname}${link.search}` : null;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
