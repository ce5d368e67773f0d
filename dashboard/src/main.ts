/** Starts the console: signs in, follows the daemon, and draws. */

import { Api, Refused, TOKEN_KEY, Unreachable } from "./daemon/api";
import { App } from "./app/app";
import { element, h, paint, patch } from "./page/dom";
import { plural } from "./page/format";
import { Live } from "./app/live";
import { leave, leftOf, Scrolling } from "./app/place";
import { followed } from "./app/route";
import { countUnsaved } from "./app/labelling";
import { pageView, titleOf } from "./views/page";
import { tokenView } from "./views/token";

/** How often times like "3 min ago" are redrawn. */
const REDRAW_MS = 15_000;
/** Controls that must not move while they are pressed: the click would miss them. */
const PRESSED = "button, a, summary, input";
/** What takes the focus of a control that is gone. No buttons: a key that is still held would press them. */
const STAYING = "h1, h2, h3, a[href], summary";

const root = element("page", HTMLElement);
const dialog = element("dialog", HTMLDialogElement);

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

function codeOf(hash: string): string | null {
  return new URLSearchParams(hash.slice(1)).get("code");
}

/** Signs in with the code of `honed dashboard`, and removes it from the address first. */
async function redeem(): Promise<void> {
  const code = codeOf(location.hash);
  if (code === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  const { secret } = await new Api(null).post<{ secret: string }>("/v1/sign-in", { code });
  sessionStorage.setItem(TOKEN_KEY, secret);
}

async function begin(): Promise<void> {
  // A link with a code that is opened in this tab changes only the fragment: nothing is loaded anew.
  window.addEventListener("hashchange", () => codeOf(location.hash) !== null && location.reload());
  try {
    await redeem();
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    await open(`Sign-in failed: ${error.message}.`);
    return;
  }
  await open();
}

/** problem: why a code did not sign in. The tab keeps the token that it has. */
async function open(problem: string | null = null): Promise<void> {
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (token === null) {
    askForToken(problem);
    return;
  }
  const session = new Session(token);
  try {
    await session.run(problem);
  } catch (error) {
    // First: an open dialog would keep the focus from the form.
    session.close();
    if (!(error instanceof Refused)) throw error;
    sessionStorage.removeItem(TOKEN_KEY);
    const lost = session.unsaved > 0 ? ` Not stored: ${plural(session.unsaved, "label")}.` : "";
    askForToken(`The daemon rejected this token: ${error.message}.${lost}`);
  }
}

/** A session with one token. */
class Session {
  readonly #ended = new AbortController();
  readonly #app: App;
  #isDue = false;
  #isPressed = false;
  #shown = "";
  readonly #scrolling = new Scrolling(this.#ended.signal);
  /** The control that had the focus last, and what it is in; then the same of the one that opened its dialog. */
  #left: HTMLElement[] = [];
  /** Whether it was disabled or removed, and not the user who left it. */
  #isLost = false;

  constructor(token: string) {
    this.#app = new App(new Api(token), () => this.#draw());
  }

  /** How many labels would be lost with it. */
  get unsaved(): number {
    return countUnsaved(this.#app);
  }

  async run(problem: string | null): Promise<never> {
    const { signal } = this.#ended;
    document.addEventListener("click", (event) => this.#click(event), { signal });
    document.addEventListener("pointerdown", (event) => this.#press(event), { signal });
    for (const released of ["pointerup", "pointercancel", "contextmenu", "blur"]) {
      window.addEventListener(released, () => this.#release(), { signal });
    }
    window.addEventListener("popstate", () => this.#app.moved(), { signal });
    window.addEventListener("beforeunload", (event) => this.#leave(event), { signal });
    for (const moved of ["resize", "scroll"]) {
      window.addEventListener(moved, () => this.#draw(), { signal, passive: true });
    }
    dialog.addEventListener("close", () => this.#app.dialog && this.#app.close(), { signal });
    const redraw = setInterval(() => this.#draw(), REDRAW_MS);
    signal.addEventListener("abort", () => clearInterval(redraw));
    if (problem !== null) this.#app.toast(problem);
    // Drawn once now to find out what to load.
    this.#drawNow();
    return await new Live(this.#app).run();
  }

  close(): void {
    this.#ended.abort();
    this.#showDialog(null);
  }

  /** At most once for each frame of the screen, and not while a control is pressed. */
  #draw(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#drawSoon();
  }

  #drawSoon(): void {
    requestAnimationFrame(() => {
      if (this.#isPressed || !this.#isDue) return;
      this.#isDue = false;
      if (!this.#ended.signal.aborted) this.#drawNow();
    });
  }

  #press({ button, target }: PointerEvent): void {
    this.#isPressed = button === 0 && target instanceof Element && target.closest(PRESSED) !== null;
  }

  #release(): void {
    this.#isPressed = false;
    if (this.#isDue) this.#drawSoon();
  }

  #drawNow(): void {
    const { resources, state, route } = this.#app;
    resources.beginDraw();
    const page = h(
      "div",
      { id: "page", class: state.connection === "lost" ? "stale" : null },
      pageView(this.#app, () => this.#forget()),
    );
    const asked = this.#app.dialog?.() ?? null;
    const focused = document.activeElement;
    this.#noteFocus(focused);
    patch(root, page);
    paint(root);
    resources.endDraw();
    document.title = titleOf(route);
    this.#showDialog(asked);
    this.#giveFocusBack(focused);
    this.#arrive();
    this.#scrolling.goOn();
  }

  #noteFocus(focused: Element | null): void {
    const within = pathTo(focused);
    if (root.contains(focused)) this.#left = within;
    else if (within.length > 0) this.#left = [...within, ...this.#left.filter((each) => root.contains(each))];
  }

  /** A browser takes the focus from a control that is disabled or removed, and gives it to none. */
  #giveFocusBack(focused: Element | null): void {
    const now = document.activeElement;
    if (now !== document.body && now?.matches(":disabled") !== true) this.#isLost = false;
    else if (focused !== document.body) this.#isLost = true;
    const [control, ...around] = this.#left;
    const isBack = control?.isConnected === true && !control.matches(":disabled");
    if (!this.#isLost || (this.#app.state.pending.size > 0 && !isBack)) return;
    this.#isLost = false;
    const near = around.filter((each) => each.isConnected).map((each) => (each.matches("button:enabled") ? each : each.querySelector<HTMLElement>(STAYING)));
    const next = isBack ? control : (near.find((each) => each !== null) ?? root.querySelector<HTMLElement>("main h1"));
    // A heading takes the focus only with the attribute.
    if (next instanceof HTMLHeadingElement) next.tabIndex = -1;
    next?.focus({ preventScroll: true });
  }

  #showDialog(asked: HTMLElement | null): void {
    if (asked === null) {
      dialog.close();
      // No secret and no unsent input stays behind.
      dialog.replaceChildren();
      return;
    }
    patch(dialog, h("dialog", { id: "dialog", "aria-labelledby": "dialog-title" }, asked));
    paint(dialog);
    if (!dialog.open) dialog.showModal();
  }

  /** After a change of page its heading takes the focus, and readers say it. On the way back and after a reload it is scrolled as it was. */
  #arrive(): void {
    const path = this.#app.route.parts.join("/");
    if (path === this.#shown) return;
    const isFirst = this.#shown === "";
    this.#shown = path || " ";
    this.#scrolling.begin();
    if (isFirst) return;
    window.scrollTo(0, leftOf().scrolled ?? 0);
    root.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
  }

  #leave(event: BeforeUnloadEvent): void {
    // No later: at its end, a page's change of the history is lost.
    leave(this.#app.state);
    if (this.unsaved > 0) event.preventDefault();
  }

  #click(event: MouseEvent): void {
    const href = followed(event);
    if (href === null) return;
    event.preventDefault();
    this.#app.go(href);
  }

  #forget(): void {
    sessionStorage.removeItem(TOKEN_KEY);
    location.reload();
  }
}

/** An element and what it is in, from the inside out. */
function pathTo(element: Element | null): HTMLElement[] {
  return element === null || [root, document.body].includes(element as HTMLElement) ? [] : [element as HTMLElement, ...pathTo(element.parentElement)];
}

void begin();
