// Asks Hone, the daemon that trains models on this device: in browsers and in Node.js 20 or later.

import { Model } from "./model.js";

export { Model } from "./model.js";
export { sessionOf, Watch } from "./watch.js";

/** The daemon refused. `code`: docs/errors.md of Hone lists them; `errors`: pointer and detail of each. */
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

  /** Any request of the API; `body`: what fetch takes, for other bodies than JSON. Throws HonedError. */
  async request(method, path, { json, body, params = {}, headers = {}, signal } = {}) {
    const query = queryOf(params);
    const answer = await this.#fetch(this.url + path + (query && `?${query}`), {
      method,
      signal,
      headers: {
        ...(this.token && { authorization: `Bearer ${this.token}` }),
        ...(json !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      body: json === undefined ? body : JSON.stringify(json),
      // Without it fetch may turn a 304 into the answer of its own cache.
      cache: "no-store",
    }).catch((error) => {
      if (!(error instanceof TypeError)) throw error; // such as an abort
      const reason = error.cause?.message || error.cause?.code || error.message;
      throw new TypeError(`no daemon answers at ${this.url}: ${reason}`, { cause: error });
    });
    if (answer.ok || answer.status === 304) return answer;
    const isJson = answer.headers.get("content-type")?.includes("json");
    throw new HonedError(answer.status, isJson ? await answer.json() : {});
  }

  /** The events of a streamed answer, as they come. Throws HonedError. */
  async *events(method, path, options) {
    const { body, status } = await this.request(method, path, options);
    let [rest, kind] = ["", ""];
    for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        if (line.startsWith("event: ")) kind = line.slice(7);
        if (!line.startsWith("data: ")) continue;
        const event = JSON.parse(line.slice(6));
        if (kind === "error") throw new HonedError(status, event);
        yield event;
      }
    }
  }

  /** The JSON answer to a GET of any route. */
  async get(path, params) {
    return (await this.request("GET", path, { params })).json();
  }

  /** All items of a list of any route, page by page. */
  async *items(path, params = {}) {
    let cursor;
    do {
      const page = await this.get(path, { ...params, cursor });
      yield* page.items;
      cursor = page.next ?? undefined;
    } while (cursor !== undefined);
  }

  /** Every model, as `describe` shows it. */
  models() {
    return this.items("/v1/models");
  }

  /** Jobs, newest first; `model`, `state`: of these alone. */
  jobs(conditions) {
    return this.items("/v1/jobs", conditions);
  }

  /** Registers an ONNX file, or a zip of artifacts. `spec`: `loss`, and what else POST /v1/models takes. */
  async register(name, bytes, spec) {
    const form = new FormData();
    form.set("spec", JSON.stringify({ name, ...spec }));
    const isZip = bytes[0] === 0x50 && bytes[1] === 0x4b;
    form.set(isZip ? "artifacts" : "model", new Blob([bytes]));
    await this.request("POST", "/v1/models", { body: form });
    return this.model(name);
  }

  /** When jobs may train, with these settings changed. */
  async policy(changes) {
    if (changes === undefined) return this.get("/v1/policy");
    return (await this.request("PUT", "/v1/policy", { json: changes })).json();
  }
}

/** A list is a parameter for each of its elements. */
function queryOf(params) {
  const pairs = Object.entries(params).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  return new URLSearchParams(pairs.filter(([, value]) => value !== undefined && value !== null)).toString();
}
