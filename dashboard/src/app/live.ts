/** Keeps the page up to date: follows the daemon's events, and reconnects. */

import { modelPath, Refused, TIMEOUT_MS, Unreachable } from "../daemon/api";
import type { App } from "./app";
import { EventParser, type Frame, readEvents } from "../daemon/events";
import { countsOf, takeOver } from "./labelling";
import { isOver, WAITING } from "./queries";
import { applyProgress, EVERYTHING, parse, staleAfter } from "./happenings";
import type { Job } from "../daemon/types";
import { pause, visible, Watchdog } from "../daemon/waiting";

const POLL_MS = 2_000;
/** The daemon counts as lost if it does not answer this retry, at most 0.7 s after it went. */
const FIRST_RETRY_MS = 300;
/** One that is frozen takes connections, and says nothing. */
const FIRST_RETRY_TIMEOUT_MS = 5_000;
const RETRY_MS = 1_000;
const SLOWEST_RETRY_MS = 5_000;
/** The daemon sends a heartbeat at least every 15 s by default. */
const SILENCE_MS = 60_000;
/** How often that is read anew which changes without an event. */
const LOOK_AGAIN_MS = 10_000;

type Events = ReadableStream<Uint8Array> | null;

export class Live {
  #lastId = "";
  #failures = 0;
  #isFirst = true;

  constructor(private readonly app: App) {}

  /** Until the token is refused; rejects with that refusal. A hidden page asks nothing. */
  async run(): Promise<never> {
    for (;;) {
      await visible();
      try {
        await this.#connected();
      } catch (error) {
        if (error instanceof Refused && error.status === 401) throw error;
        this.#lose(error);
        const later = Math.min(RETRY_MS * (this.#failures - 1), SLOWEST_RETRY_MS);
        await pause(this.#failures === 1 ? FIRST_RETRY_MS : later);
      }
    }
  }

  /** Returns when the page is hidden. Rejects when the connection is lost. */
  async #connected(): Promise<void> {
    const controller = new AbortController();
    const { signal } = controller;
    const { resources, api } = this.app;
    const hide = (): void => controller.abort();
    document.addEventListener("visibilitychange", hide, { once: true });
    const again = setInterval(() => {
      resources.retry();
      resources.mark(untold(this.app));
    }, LOOK_AGAIN_MS);
    const watchdog = new Watchdog(SILENCE_MS, controller, this.#failures === 1 ? FIRST_RETRY_TIMEOUT_MS : TIMEOUT_MS);
    try {
      const headers: Record<string, string> = this.#lastId ? { "Last-Event-ID": this.#lastId } : {};
      const [stream, failed] = await this.#begin(api.stream("/v1/events", headers, signal));
      const told = stream === null ? this.#poll(signal, watchdog) : this.#follow(stream, watchdog);
      await Promise.race([told, failed]);
    } catch (error) {
      if (!(signal.aborted && document.hidden)) throw error;
    } finally {
      document.removeEventListener("visibilitychange", hide);
      clearInterval(again);
      watchdog.stop();
      resources.close();
      controller.abort();
    }
  }

  /**
   * The events, and a promise that rejects when the page cannot be loaded. A page that is new does
   * not wait for the events before it asks for what it shows: of that it asks again, since
   * something may have happened in between. Otherwise nobody is asked until the daemon answers.
   */
  async #begin(asked: Promise<Events>): Promise<[Events, Promise<never>]> {
    const { resources } = this.app;
    let fail: (error: unknown) => void = () => undefined;
    const failed = new Promise<never>((_, reject) => (fail = reject));
    const early = this.#isFirst ? resources.open(fail) : null;
    this.#isFirst = false;
    const stream = await Promise.race([asked, failed]);
    if (early !== null) resources.mark(EVERYTHING);
    void (early ?? resources.open(fail)).then((isSo) => {
      if (isSo) this.#connect(stream === null ? "polling" : "live");
    });
    return [stream, failed];
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
      this.app.resources.mark(EVERYTHING);
    }
  }

  #take(frame: Frame): void {
    const happened = parse(frame.data);
    if (happened === null) return;
    const { resources } = this.app;
    if (happened.type === "job.progress" && applyProgress(resources, happened.data)) {
      resources.mark([`/v1/jobs/${String(happened.data.job_id)}/metrics`]);
      this.app.draw();
    } else if (happened.type === "samples.changed" && happened.model !== null) {
      const id = Number(happened.data.id);
      resources.mark([...countsOf(happened.model), modelPath(happened.model, `/samples/${id}`)]);
      void takeOver(this.app, happened.model, id);
    } else {
      resources.mark([...staleAfter(happened), "/v1/events"]);
    }
  }

  #connect(connection: "live" | "polling"): void {
    const { state, draw } = this.app;
    this.#failures = 0;
    state.connection = connection;
    state.lostSince = null;
    draw();
  }

  /** The daemon may only be restarting: it counts as lost when it does not answer again. */
  #lose(error: unknown): void {
    const { state, draw } = this.app;
    console.info("honed: the connection is lost;", error);
    this.#failures += 1;
    state.lostSince ??= new Date();
    state.connection = this.#failures > 1 ? "lost" : "connecting";
    draw();
  }
}

/** The addresses that change without an event: the device's signals, why jobs wait, the shown job's log, refusals. */
function untold({ route: { parts: [place, id] }, resources }: App): string[] {
  const job = place === "jobs" ? resources.peek<Job>(`/v1/jobs/${String(id)}`) : null;
  return ["/v1/device", WAITING, "/v1/audit", ...(job && !isOver(job) ? [`/v1/jobs/${job.id}`] : [])];
}
