/** How far a page is scrolled and how much of its lists is shown: kept in the browser's history. */

import type { State } from "./state";

/** A page that is loaded for longer stays where it is by then. */
const SCROLLED_WITHIN_MS = 10_000;

interface Left {
  scrolled: number;
  /** Of lists that are shown page by page, by draft. */
  pages: Record<string, number>;
}

export function leftOf(): Partial<Left> {
  return (history.state ?? {}) as Partial<Left>;
}

/** Notes the page's place, for the way back and for a reload. */
export function leave({ drafts }: State): void {
  const pages = [...drafts].flatMap(([name, draft]) => (typeof draft.pages === "number" ? [[name, draft.pages]] : []));
  history.replaceState({ scrolled: window.scrollY, pages: Object.fromEntries(pages) }, "");
}

/** Scrolls a page to where it was left once it is long enough, unless the user does something first. */
export class Scrolling {
  #awaited = 0;
  #until = 0;

  constructor(signal: AbortSignal) {
    for (const moved of ["wheel", "keydown", "pointerdown"]) {
      window.addEventListener(moved, () => (this.#awaited = 0), { signal, passive: true });
    }
  }

  /** The page is another one. */
  begin(): void {
    this.#awaited = leftOf().scrolled ?? 0;
    this.#until = performance.now() + SCROLLED_WITHIN_MS;
  }

  /** The page was drawn. */
  goOn(): void {
    if (performance.now() > this.#until) this.#awaited = 0;
    if (this.#awaited === 0 || document.documentElement.scrollHeight < this.#awaited + window.innerHeight) return;
    window.scrollTo(0, this.#awaited);
    this.#awaited = 0;
  }
}
