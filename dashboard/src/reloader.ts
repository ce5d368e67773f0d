/** Loads what is marked as stale: one load at a time, however often it is marked meanwhile. */

import type { Api } from "./api";
import { loadCurve, loadDevice, loadJobs, loadModel, loadModels } from "./loaders";
import { ALL, type Part } from "./parts";
import type { State } from "./state";
import { pause } from "./waiting";

/** Samples may arrive a hundred times a second; the page asks four times. */
const SHORTEST_MS = 250;

export class Reloader {
  readonly #stale = new Set<Part>();
  /** What waits for the next load that succeeds. */
  #awaiting: (() => void)[] = [];
  #wake: (() => void) | null = null;

  constructor(
    private readonly api: Api,
    private readonly state: State,
    private readonly onLoaded: () => void,
  ) {}

  mark(parts: readonly Part[]): void {
    for (const part of parts) this.#stale.add(part);
    this.#wake?.();
  }

  /** Mark, and resolve once the parts have been loaded. */
  reload(parts: readonly Part[]): Promise<void> {
    return new Promise((resolve) => {
      this.#awaiting.push(resolve);
      this.mark(parts);
    });
  }

  /** Load everything now. */
  async all(): Promise<void> {
    this.mark(ALL);
    await this.#load();
  }

  /** Load whatever is marked, until the signal. Rejects with what a request rejects with. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#load();
      await pause(SHORTEST_MS, signal);
      if (this.#stale.size === 0) await this.#marked(signal);
    }
  }

  async #load(): Promise<void> {
    const parts = new Set(this.#stale);
    this.#stale.clear();
    const awaiting = this.#awaiting.splice(0);
    try {
      await Promise.all([...parts].map((part) => this.#loadPart(part, parts)));
      if (parts.has("curve")) await loadCurve(this.api, this.state);
    } catch (error) {
      this.mark([...parts]);
      this.#awaiting.push(...awaiting);
      throw error;
    }
    for (const resolve of awaiting) resolve();
    if (parts.size > 0) this.onLoaded();
  }

  async #loadPart(part: Part, all: Set<Part>): Promise<void> {
    if (part === "device") await loadDevice(this.api, this.state);
    else if (part === "models") await loadModels(this.api, this.state);
    else if (part === "jobs") await loadJobs(this.api, this.state);
    else if (part !== "curve" && !all.has("models")) {
      await loadModel(this.api, this.state, part.slice("model:".length));
    }
  }

  async #marked(signal: AbortSignal): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    this.#wake = null;
  }
}
