// One model of the daemon: predictions, samples, jobs, triggers, versions.

import { sessionOf, Watch } from "./watch.js";

const ENDED = ["succeeded", "failed", "cancelled"];
const POLL_MS = 500;
/** How long the daemon of a job that is waited for may be away: it goes on with the job. */
const RESTART_MS = 60_000;
/** By the first bytes of a file. */
const MEDIA_TYPES = [
  [/^\x89PNG/, "image/png"],
  [/^\xff\xd8/, "image/jpeg"],
  [/^RIFF.{4}WEBP/s, "image/webp"],
  [/^RIFF.{4}WAVE/s, "audio/wav"],
  [/^fLaC/, "audio/flac"],
];
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  uint8: Uint8Array,
  uint16: Uint16Array,
  uint32: Uint32Array,
  int32: Int32Array,
  int64: BigInt64Array,
};

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

  /**
   * What the promoted version says of one instance. `keep`: store it; its `id` is in the answer.
   * `top`: only so many of the likeliest classes. `output`: names of the model's outputs to add.
   */
  async predict(x, options) {
    const isFile = x instanceof Blob;
    const sent = isFile ? { body: x, headers: { "content-type": await mediaType(x) } } : { json: await this.#instance(x) };
    return (await this.#predict(sent, options))[0];
  }

  /** The same for many instances, in one request; files take one each. */
  async predictAll(xs, options) {
    if (areFiles(xs)) return inTurn(xs, (x) => this.predict(x, options));
    return this.#predict({ json: { instances: await this.#instances(xs) } }, options);
  }

  /**
   * The numbers for many instances as one typed array, instances first, and its shape. `output`: of the
   * model; without it the probabilities or values, or the classes of masks.
   */
  async predictArray(xs, { output } = {}) {
    const answer = await this.client.request("POST", this.#path("predict"), {
      json: { instances: await this.#instances(xs) },
      params: { output },
      headers: { accept: "application/octet-stream" },
    });
    const dtype = answer.headers.get("honed-dtype");
    const shape = answer.headers.get("honed-shape").split(",").map(Number);
    if (!(dtype in ARRAYS)) throw new TypeError(`there is no typed array of ${dtype}; use predictAll`);
    return { data: new ARRAYS[dtype](await answer.arrayBuffer()), shape };
  }

  /** The likeliest next words of a text, and completions of the word that it ends with. */
  async suggest(text, suggestions = 3) {
    return (await this.#post("complete", { text, suggestions })).suggestions;
  }

  /** Text that the model generates after this one. `options`: `max_tokens`, `temperature`, `stop` and so on. */
  async complete(text, options = {}) {
    return this.#post("complete", { text, ...options });
  }

  /** The same in parts, as they come: each has the text that it adds. Leaving the loop ends the generation. */
  stream(text, options = {}) {
    return this.client.events("POST", this.#path("complete"), { json: { text, ...options, stream: true } });
  }

  /** Stores a sample; its id, null if the model has it already. `about`: `key`, `weight`, `split`. */
  async add(x, label = null, about = {}) {
    const sample = { x, label, ...about };
    const { ids } = x instanceof Blob ? await this.addAll([sample]) : await this.#post("samples", await this.#sample(sample));
    return ids ? ids[0] : null;
  }

  /** Stores many samples, all or none, in one request: a list of `{ x, label, key, weight, split }`. */
  async addAll(samples) {
    if (areFiles(samples.map(({ x }) => x))) return this.#addFiles(samples);
    return this.#post("samples", { samples: await inTurn(samples, (sample) => this.#sample(sample)) });
  }

  /** Labels a stored sample: a class's name or number, or the values; null takes it away. */
  async label(sample, label) {
    return this.change(sample, { label });
  }

  /** Changes `label`, `weight`, `split` or `pinned`. `sample`: its id, or its key as text. */
  async change(sample, { label, ...changes }) {
    const json = { ...changes, ...(label !== undefined && { label: await this.#label(label) }) };
    const isKey = typeof sample === "string";
    const path = isKey ? this.#path("samples") : this.#path("samples", sample);
    return (await this.client.request("PATCH", path, { json, params: isKey ? { key: sample } : {} })).json();
  }

  /** Samples by `label`, `split`, `unlabelled`, `key`, …: what GET …/samples takes. */
  samples(conditions) {
    return this.client.items(this.#path("samples"), conditions);
  }

  /** Queues a job. `wait`: until it has ended, however it ends; the daemon may restart meanwhile. */
  async train({ wait = false, ...hyperparameters } = {}) {
    let job = await this.#post("jobs", hyperparameters);
    let seen = Date.now();
    while (wait && !ENDED.includes(job.state)) {
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      try {
        job = await this.client.get(`/v1/jobs/${job.id}`);
        seen = Date.now();
      } catch (error) {
        if (error.name === "HonedError" || Date.now() > seen + RESTART_MS) throw error;
      }
    }
    return job;
  }

  /** What queues jobs by itself. */
  triggers() {
    return this.client.items(this.#path("triggers"));
  }

  /** Has jobs queued, such as by `{ new_samples: 500 }`. */
  async addTrigger(fields) {
    return this.#post("triggers", fields);
  }

  async changeTrigger(trigger, fields) {
    return (await this.client.request("PATCH", this.#path("triggers", trigger), { json: fields })).json();
  }

  /** Its jobs stay. */
  async removeTrigger(trigger) {
    await this.client.request("DELETE", this.#path("triggers", trigger));
  }

  /** Every version, newest first. */
  versions() {
    return this.client.items(this.#path("versions"));
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

  async #post(part, json) {
    return (await this.client.request("POST", this.#path(part), { json })).json();
  }

  async #addFiles(samples) {
    const form = new FormData();
    for (const { x } of samples) form.append("file", new Blob([x], { type: await mediaType(x) }), x.name ?? "file");
    const described = await inTurn(samples, async ({ x, label = null, ...about }) => ({ label: await this.#label(label), ...about }));
    form.append("samples", JSON.stringify(described));
    return (await this.client.request("POST", this.#path("samples"), { body: form })).json();
  }

  async #predict(sent, { keep = false, top, output } = {}) {
    const params = { keep: keep || undefined, top, output };
    const answer = await this.client.request("POST", this.#path("predict"), { ...sent, params });
    const { predictions, version, ids } = await answer.json();
    return predictions.map((prediction, place) => ({ ...prediction, version, ...(ids && { id: ids[place] }) }));
  }

  async #sample({ x, label = null, ...about }) {
    return { ...(await this.#instance(x)), label: await this.#label(label), ...about };
  }

  async #instances(xs) {
    return inTurn(xs, (x) => this.#instance(x));
  }

  /** A text is one as it is. */
  async #instance(x) {
    return typeof x === "string" ? { text: x } : { inputs: await this.#inputs(x) };
  }

  async #inputs(x) {
    const isNamed = x !== null && typeof x === "object" && !Array.isArray(x) && !ArrayBuffer.isView(x);
    if (isNamed) return Object.fromEntries(Object.entries(x).map(([name, value]) => [name, plain(value)]));
    const { inputs } = this.#described ?? (await this.describe());
    const names = inputs.map((input) => input.name);
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

function areFiles(xs) {
  return xs.length > 0 && xs.every((x) => x instanceof Blob);
}

/** Of a photo or a recording; a blob that was made of bytes may not tell. */
async function mediaType(file) {
  const first = String.fromCharCode(...new Uint8Array(await file.slice(0, 12).arrayBuffer()));
  const known = MEDIA_TYPES.find(([pattern]) => pattern.test(first));
  if (!known) throw new TypeError("photos are PNG, JPEG or WebP, recordings WAV or FLAC; this is neither");
  return known[1];
}

/** One after the other: the first may ask for the model's description, which the others need too. */
async function inTurn(values, make) {
  const results = [];
  for (const value of values) results.push(await make(value));
  return results;
}

/** As JSON can hold it: typed arrays as arrays, whole numbers of 64 bits as numbers. */
function plain(value) {
  if (typeof value === "number" && !Number.isFinite(value)) throw new RangeError(`${value} is no number of JSON, which makes it null`);
  if (typeof value === "bigint") {
    if (!Number.isSafeInteger(Number(value))) throw new RangeError(`${value} is beyond the numbers that are exact as JSON`);
    return Number(value);
  }
  return ArrayBuffer.isView(value) || Array.isArray(value) ? Array.from(value, plain) : value;
}

async function digest(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
