/** Shared by all views: the state, what was read from the API, and actions. */

import { type Api, Refused, Unreachable } from "../daemon/api";
import { Resources } from "../daemon/resources";
import { leave, leftOf } from "./place";
import { type Route, routeOf } from "./route";
import { emptyState, type State } from "./state";

const WIDEST_CHART = 1_100;
const CARD_PADDING = 42;
const TOAST_MS = 8_000;

/** The message of a successful action; link: where it leads. */
export type Said = string | { text: string; link: string };

export class App {
  readonly state: State = emptyState();
  readonly resources: Resources;
  route: Route = routeOf(location);
  /** The open dialog, drawn anew with the page. */
  dialog: (() => HTMLElement) | null = null;
  #toasts = 0;

  constructor(
    readonly api: Api,
    readonly draw: () => void,
  ) {
    this.resources = new Resources(api, draw);
  }

  /** Of the room for a chart, in pixels. */
  get width(): number {
    const room = document.getElementById("main")?.clientWidth ?? 700;
    return Math.max(240, Math.min(room - CARD_PADDING, WIDEST_CHART));
  }

  /** The same in the card with this heading, which is known once it is drawn. */
  widthOf(id: string): number {
    const card = document.getElementById(id)?.closest(".card");
    if (!card) this.draw();
    return card ? Math.max(240, card.clientWidth - CARD_PADDING) : this.width;
  }

  /** To another page of the console. isSame: the same page, with another filter or order. */
  go(href: string, { isSame = false } = {}): void {
    if (!isSame) {
      leave(this.state);
      history.pushState(null, "", href);
    } else history.replaceState(null, "", href);
    this.moved(isSame);
  }

  /** The address has changed. */
  moved(isSame = false): void {
    this.route = routeOf(location);
    if (!isSame) {
      this.dialog = null;
      this.state.results.clear();
    }
    this.draw();
  }

  /** A form's draft, which begins as `initial`. */
  draft<T extends Record<string, unknown>>(name: string, initial: () => T): T {
    const known = this.state.drafts.get(name);
    if (known !== undefined) return known as T;
    const pages = leftOf().pages?.[name];
    const begun = { ...initial(), ...(pages === undefined ? {} : { pages }) };
    this.state.drafts.set(name, begun);
    return begun;
  }

  toast(said: Said): void {
    const { text, link } = typeof said === "string" ? { text: said, link: null } : said;
    const toast = { id: ++this.#toasts, text, link };
    this.state.toasts = [...this.state.toasts.slice(-2), toast];
    setTimeout(() => this.forgetToast(toast.id), TOAST_MS);
    this.draw();
  }

  forgetToast(id: number): void {
    this.state.toasts = this.state.toasts.filter((toast) => toast.id !== id);
    this.draw();
  }

  open(dialog: () => HTMLElement): void {
    this.dialog = dialog;
    this.draw();
  }

  close(): void {
    this.dialog = null;
    this.draw();
  }

  /**
   * Carries out what a button asks for. It waits until the page shows what came of it: a second
   * click is dropped. stale: the addresses that it changes. Whether it worked.
   */
  async act(name: string, stale: readonly string[], run: () => Promise<Said | null>): Promise<boolean> {
    const { pending, results } = this.state;
    if (pending.has(name)) return false;
    pending.add(name);
    results.delete(name);
    this.draw();
    try {
      const said = await run();
      await this.resources.refresh(stale);
      if (said !== null) this.toast(said);
      return true;
    } catch (error) {
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
      results.set(name, resultOf(error));
      await this.resources.refresh(stale);
      return false;
    } finally {
      pending.delete(name);
      this.draw();
    }
  }
}

/** A failed action's message, with every fault of the request. */
export function resultOf(error: Refused | Unreachable): { text: string; faults: Refused["faults"] } {
  if (error instanceof Refused) return { text: error.message, faults: error.faults };
  const isLate = error.cause instanceof DOMException && error.cause.name === "TimeoutError";
  return { text: `${error.message}. ${isLate ? "It may still carry this out: look before you try again." : "Try again."}`, faults: [] };
}
