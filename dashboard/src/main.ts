/** Starts the page: asks for the token, follows the daemon, draws, and hears clicks. */

import { act } from "./actions";
import { Api, Refused } from "./api";
import { element, h, patch } from "./dom";
import { Live } from "./live";
import { confirmCancel } from "./question";
import { emptyState, type State } from "./state";
import { pageView } from "./views/page";
import type { Action } from "./views/parts";
import { tokenView } from "./views/token";

const TOKEN_KEY = "honed.token";
/** Times are told as "3 min ago". */
const REDRAW_MS = 15_000;
const WIDEST_CURVE = 1_100;

const root = element("page", HTMLElement);

function askForToken(problem: string | null): void {
  patch(root, h("div", { id: "page" }, tokenView(problem)));
  const field = element("token", HTMLInputElement);
  field.focus();
  element("token-form", HTMLFormElement).onsubmit = (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN_KEY, field.value.trim());
    field.value = "";
    void open();
  };
}

async function open(): Promise<void> {
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (token === null) {
    askForToken(null);
    return;
  }
  const session = new Session(token);
  try {
    await session.run();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    sessionStorage.removeItem(TOKEN_KEY);
    askForToken("The daemon does not know this token.");
  } finally {
    session.close();
  }
}

/** One stay with one token. */
class Session {
  readonly #state: State = emptyState();
  readonly #ended = new AbortController();
  readonly #api: Api;
  readonly #live: Live;
  #isDue = false;

  constructor(token: string) {
    this.#api = new Api(token);
    this.#live = new Live(this.#api, this.#state, () => this.#draw());
  }

  async run(): Promise<never> {
    const { signal } = this.#ended;
    root.addEventListener("click", (event) => this.#click(event), { signal });
    window.addEventListener("resize", () => this.#draw(), { signal });
    const redraw = setInterval(() => this.#draw(), REDRAW_MS);
    signal.addEventListener("abort", () => clearInterval(redraw));
    this.#draw();
    return await this.#live.run();
  }

  close(): void {
    this.#ended.abort();
  }

  /** At most once for each frame of the screen. */
  #draw(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      if (!this.#ended.signal.aborted) patch(root, pageView(this.#state, this.#curveWidth()));
    });
  }

  #curveWidth(): number {
    const card = root.querySelector<HTMLElement>(".now");
    const room = card === null ? 600 : card.clientWidth - 2 * parseFloat(getComputedStyle(card).paddingLeft);
    return Math.max(240, Math.min(room, WIDEST_CURVE));
  }

  #click(event: Event): void {
    const button = event.target instanceof Element ? event.target.closest("[data-action]") : null;
    if (button === null) return;
    const { action, subject = "" } = (button as HTMLElement).dataset;
    void this.#do(action as Action, subject);
  }

  async #do(action: Action, subject: string): Promise<void> {
    if (action === "forget") {
      sessionStorage.removeItem(TOKEN_KEY);
      location.reload();
    } else if (action === "dismiss") {
      this.#state.notice = null;
    } else if (action === "show") {
      this.#state.chosen = Number(subject);
      this.#live.reloader.mark(["curve"]);
    } else if (action !== "cancel" || (await confirmCancel(subject))) {
      const done = act(this.#api, this.#state, action, subject, (parts) =>
        this.#live.reloader.reload(parts),
      );
      this.#draw();
      await done;
    }
    this.#draw();
  }
}

void open();
