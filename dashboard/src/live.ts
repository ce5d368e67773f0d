/** Keeps the state true: follows the daemon's events, and comes back when it was away. */

import { type Api, Refused, Unreachable } from "./api";
import { EventParser, type Frame, readEvents } from "./events";
import { ALL, applyProgress, parse, staleAfter } from "./parts";
import { Reloader } from "./reloader";
import type { State } from "./state";
import { pause, visible, Watchdog } from "./waiting";

const POLL_MS = 2_000;
const RETRY_MS = 1_000;
const SLOWEST_RETRY_MS = 5_000;
/** The daemon sends a comment every 15 s at the latest, unless it is set otherwise. */
const SILENCE_MS = 60_000;
/** Why a job waits may change its numbers without an event. */
const LOOK_AGAIN_MS = 10_000;

export class Live {
  readonly reloader: Reloader;
  #lastId = "";
  #failures = 0;

  constructor(
    private readonly api: Api,
    private readonly state: State,
    private readonly render: () => void,
  ) {
    this.reloader = new Reloader(api, state, render);
  }

  /** Until the token is refused; rejects with that refusal. A hidden page asks nothing. */
  async run(): Promise<never> {
    for (;;) {
      await visible();
      try {
        await this.#connected();
      } catch (error) {
        if (error instanceof Refused && error.status === 401) throw error;
        this.#lose(error);
        await pause(Math.min(RETRY_MS * this.#failures, SLOWEST_RETRY_MS));
      }
    }
  }

  /** Returns when the page is hidden. Rejects when the connection is lost. */
  async #connected(): Promise<void> {
    const controller = new AbortController();
    const { signal } = controller;
    const hide = (): void => controller.abort();
    document.addEventListener("visibilitychange", hide, { once: true });
    const again = setInterval(() => this.#lookAgain(), LOOK_AGAIN_MS);
    const watchdog = new Watchdog(SILENCE_MS, controller);
    try {
      const headers: Record<string, string> = this.#lastId ? { "Last-Event-ID": this.#lastId } : {};
      const stream = await this.api.stream("/v1/events", headers, signal);
      this.state.curves.clear();
      await this.reloader.all();
      this.#connect(stream === null ? "polling" : "live");
      const told = stream === null ? this.#poll(signal, watchdog) : this.#follow(stream, watchdog);
      await Promise.race([told, this.reloader.run(signal)]);
    } catch (error) {
      if (!(signal.aborted && document.hidden)) throw error;
    } finally {
      document.removeEventListener("visibilitychange", hide);
      clearInterval(again);
      watchdog.stop();
      controller.abort();
    }
  }

  async #follow(stream: ReadableStream<Uint8Array>, watchdog: Watchdog): Promise<void> {
    const parser = new EventParser(this.#lastId);
    const onEvent = (frame: Frame): void => this.#take(frame);
    try {
      await readEvents(stream, parser, onEvent, () => watchdog.alive());
    } catch (error) {
      throw new Unreachable("the events broke off", { cause: error });
    } finally {
      this.#lastId = parser.lastId;
    }
    throw new Unreachable("the daemon ended the events");
  }

  async #poll(signal: AbortSignal, watchdog: Watchdog): Promise<void> {
    while (!signal.aborted) {
      await pause(POLL_MS, signal);
      watchdog.alive();
      this.reloader.mark(ALL);
    }
  }

  #take(frame: Frame): void {
    const happened = parse(frame.data);
    if (happened === null) return;
    if (happened.type === "job.progress" && applyProgress(this.state, happened.data)) {
      this.reloader.mark(["curve"]);
      this.render();
    } else {
      this.reloader.mark(staleAfter(happened));
    }
  }

  #lookAgain(): void {
    if (this.state.waiting.length > 0) this.reloader.mark(["device", "jobs"]);
  }

  #connect(connection: "live" | "polling"): void {
    this.#failures = 0;
    this.state.connection = connection;
    this.state.lostSince = null;
    this.render();
  }

  /** The daemon may only be restarting: it counts as lost when it does not answer again. */
  #lose(error: unknown): void {
    console.info("honed: the connection is lost;", error);
    if (error instanceof Refused) this.state.notice = error.message;
    this.#failures += 1;
    this.state.lostSince ??= new Date();
    this.state.connection = this.#failures > 1 ? "lost" : "connecting";
    this.render();
  }
}
