// A session of the newest promoted model, kept up to date.

const PAUSE_MS = 1000;
const WAIT_S = 30;

/** `session`: of the newest model. `trouble`: why the last try to get a newer one failed. */
export class Watch {
  #model;
  #make;
  #ending = new AbortController();
  #waiting = [];

  constructor(model, make) {
    this.#model = model;
    this.#make = make;
    this.trouble = null;
  }

  async start() {
    await this.#swap(await this.#model.newest());
    this.#follow();
  }

  /** Resolves when the session is replaced the next time. */
  changed() {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  close() {
    this.#ending.abort();
  }

  async #swap({ bytes, sha256 }) {
    this.session = await this.#make(bytes);
    this.sha256 = sha256;
    for (const resolve of this.#waiting.splice(0)) resolve(this.session);
  }

  async #follow() {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      try {
        const found = await this.#model.newest({ known: this.sha256, waitS: WAIT_S, signal });
        if (found && !signal.aborted) await this.#swap(found);
        this.trouble = null;
      } catch (error) {
        // What is refused, or cannot be loaded, leaves the session as it is.
        if (signal.aborted) return;
        this.trouble = error;
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
  }
}

/** A session of the runtime that is installed: onnxruntime-node in Node.js, else onnxruntime-web. */
export async function sessionOf(bytes) {
  const inNode = typeof process !== "undefined" && process.versions?.node;
  const { InferenceSession } = await import(inNode ? "onnxruntime-node" : "onnxruntime-web");
  return InferenceSession.create(bytes);
}
