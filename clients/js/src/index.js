// Asks Hone, the daemon that trains models on this device: in browsers and in Node.js 20 or later.

const ENDED = ["succeeded", "failed", "cancelled"];
const POLL_MS = 500;
const PAUSE_MS = 1000;
const WAIT_S = 30;

/** The daemon refused. `code`: docs/errors.md lists them; `errors`: pointer and detail of each. */
export class HonedError extends Error {
  constructor(status, document) {
    const { code = "", detail, title, errors = [] } = document;
    const told = detail ?? title ?? `HTTP ${status}`;
    super([told, ...errors.slice(0, 5).map((each) => `${each.pointer}: ${each.detail}`)].join("; "));
    Object.assign(this, { name: "HonedError", status, code, detail: told, errors });
  }
}

/** Asks one daemon. `fetch`: another one than the platform's, as ./node has for Unix sockets. */
export class Client {
  #fetch;

  constructor({ url = "http://127.0.0.1:8471", token, fetch = globalThis.fetch.bind(globalThis) } = {}) {
    this.url = url.replace(/\/+$/, "");
    this.token = token;
    this.#fetch = fetch;
  }

  model(name) {
    return new Model(this, name);
  }

  /** Any request of the API. Throws HonedError. */
  async request(method, path, { json, params = {}, headers = {}, signal } = {}) {
    const given = Object.entries(params).filter(([, value]) => value !== undefined);
    const query = new URLSearchParams(given).toString();
    const answer = await this.#fetch(this.url + path + (query && `?${query}`), {
      method,
      signal,
      headers: {
        ...(this.token && { authorization: `Bearer ${this.token}` }),
        ...(json !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      body: json === undefined ? undefined : JSON.stringify(json),
      // Without it fetch may turn a 304 into the answer of its own cache.
      cache: "no-store",
    });
    if (answer.ok || answer.status === 304) return answer;
    const isJson = answer.headers.get("content-type")?.includes("json");
    throw new HonedError(answer.status, isJson ? await answer.json() : {});
  }

  /** The JSON answer to a GET of any route. */
  async get(path, params) {
    return (await this.request("GET", path, { params })).json();
  }
}

/** One model of the daemon. */
export class Model {
  #described;

  constructor(client, name) {
    Object.assign(this, { client, name });
  }

  /** Signature, settings and counts of samples, as they are now. */
  async describe() {
    this.#described = await this.client.get(this.#path());
    return this.#described;
  }

  /** What the promoted version says of one instance. `keep`: store it; its `id` is in the answer. */
  async predict(x, { keep = false } = {}) {
    const answer = await this.client.request("POST", this.#path("predict"), {
      json: { inputs: await this.#inputs(x) },
      params: keep ? { keep: true } : {},
    });
    const { predictions, version, ids } = await answer.json();
    return { ...predictions[0], version, ...(ids && { id: ids[0] }) };
  }

  /** Stores a sample; its id, null if the model has it already. */
  async add(x, label = null, { key } = {}) {
    const json = { inputs: await this.#inputs(x), label: await this.#label(label), ...(key && { key }) };
    const { ids } = await (await this.client.request("POST", this.#path("samples"), { json })).json();
    return ids ? ids[0] : null;
  }

  /** Labels a stored sample: a class's name or number, or the values; null takes it away. */
  async label(sample, label) {
    const json = { label: await this.#label(label) };
    return (await this.client.request("PATCH", this.#path("samples", sample), { json })).json();
  }

  /** Queues a job. `wait`: until it has ended, however it ends. */
  async train({ wait = false, ...hyperparameters } = {}) {
    const asked = { json: hyperparameters };
    let job = await (await this.client.request("POST", this.#path("jobs"), asked)).json();
    while (wait && !ENDED.includes(job.state)) {
      await pause(POLL_MS);
      job = await this.client.get(`/v1/jobs/${job.id}`);
    }
    return job;
  }

  /** The version that apps get. */
  async latest() {
    return this.client.get(this.#path("latest"));
  }

  /** The newest model's bytes and SHA-256; null if that is `known`, after `waitS` seconds. */
  async newest({ known, waitS = 0, signal } = {}) {
    const answer = await this.client.request("GET", this.#path("latest", "model.onnx"), {
      params: known && waitS ? { wait: waitS } : {},
      headers: known ? { "if-none-match": `"${known}"` } : {},
      signal,
    });
    if (answer.status === 304) return null;
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const sha256 = await digest(bytes);
    const wanted = answer.headers.get("etag");
    if (wanted !== `"${sha256}"`) throw new Error(`the model's SHA-256 is ${sha256}, its ETag ${wanted}`);
    return { bytes, sha256 };
  }

  /** A session of the newest model, replaced as soon as there is a newer one, until `close`. */
  async watch(make = sessionOf) {
    const live = new Watch(this, make);
    await live.start();
    return live;
  }

  #path(...parts) {
    return ["/v1/models", ...[this.name, ...parts].map(encodeURIComponent)].join("/");
  }

  async #inputs(x) {
    const isNamed = x !== null && typeof x === "object" && !Array.isArray(x) && !ArrayBuffer.isView(x);
    if (isNamed) return Object.fromEntries(Object.entries(x).map(([name, value]) => [name, plain(value)]));
    const { inputs } = this.#described ?? (await this.describe());
    const names = inputs.map((each) => each.name);
    if (names.length !== 1) throw new TypeError(`the model takes ${names.join(", ")}: give an object of these`);
    return { [names[0]]: plain(x) };
  }

  /** A number that is given as text is one for a model whose classes have no names. */
  async #label(label) {
    if (typeof label !== "string" || !/^\d+$/.test(label)) return plain(label);
    const { target } = this.#described ?? (await this.describe());
    return target.classes ? label : Number(label);
  }
}

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
        await pause(PAUSE_MS);
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

/** Typed arrays as arrays. */
function plain(value) {
  return ArrayBuffer.isView(value) ? Array.from(value) : value;
}

async function digest(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
