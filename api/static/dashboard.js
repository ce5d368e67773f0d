// src/daemon/api.ts
var TIMEOUT_MS = 15e3;
var Unreachable = class extends Error {
};
var Refused = class extends Error {
  constructor(status, code, detail2, faults2 = []) {
    super(detail2);
    this.status = status;
    this.code = code;
    this.faults = faults2;
  }
  status;
  code;
  faults;
};
var Api = class {
  #token;
  /** token: null for what needs none. */
  constructor(token) {
    this.#token = token;
  }
  async get(path) {
    return await this.#answer("GET", path);
  }
  async post(path, body) {
    return await this.#answer("POST", path, body);
  }
  async put(path, body) {
    return await this.#answer("PUT", path, body);
  }
  async patch(path, body) {
    return await this.#answer("PATCH", path, body);
  }
  async remove(path) {
    return await this.#answer("DELETE", path);
  }
  /** Sends files, however long that takes. */
  async upload(path, body, signal) {
    const request = { method: "POST", body, ...signal ? { signal } : {} };
    return await answered(await this.#send(path, request));
  }
  /** The bytes of an answer. */
  async bytes(path, signal) {
    const response = await this.#send(path, signal ? { signal } : {}, "default");
    if (!response.ok) throw await refusal(response);
    return await response.blob();
  }
  /** Every item of a list, page by page. */
  async all(path) {
    const items = [];
    let cursor = null;
    do {
      const page = await this.get(withQuery(path, { limit: 1e3, cursor }));
      items.push(...page.items);
      cursor = page.next;
    } while (cursor !== null);
    return items;
  }
  /** The body of a stream that lasts, null where the daemon has no such route. */
  async stream(path, headers, signal) {
    const response = await this.#send(path, { headers, signal });
    if (response.status === 404) return null;
    if (!response.ok || response.body === null) throw await refusal(response);
    return response.body;
  }
  async #answer(method, path, body) {
    const request = { method, signal: AbortSignal.timeout(TIMEOUT_MS) };
    if (body !== void 0) {
      request.body = JSON.stringify(body);
      request.headers = { "Content-Type": "application/json" };
    }
    return await answered(await this.#send(path, request));
  }
  async #send(path, request, cache = "no-store") {
    const authorization = this.#token === null ? {} : { Authorization: `Bearer ${this.#token}` };
    const headers = { ...request.headers, ...authorization };
    try {
      return await fetch(path, {
        ...request,
        headers,
        cache,
        credentials: "omit",
        redirect: "error"
      });
    } catch (error) {
      if (request.signal?.aborted && request.signal.reason?.name !== "TimeoutError") throw error;
      throw new Unreachable("no answer", { cause: error });
    }
  }
};
function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null);
  if (given.length === 0) return path;
  const text2 = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return `${path}${path.includes("?") ? "&" : "?"}${text2}`;
}
function modelPath(name, rest = "") {
  return `/v1/models/${encodeURIComponent(name)}${rest}`;
}
async function answered(response) {
  if (!response.ok) throw await refusal(response);
  if (response.status === 204) return null;
  try {
    return await response.json();
  } catch (error) {
    throw new Unreachable("the answer broke off", { cause: error });
  }
}
async function refusal(response) {
  const told3 = await response.json().catch(() => null);
  const problem = typeof told3 === "object" && told3 !== null ? told3 : {};
  const code = "code" in problem ? String(problem.code) : "";
  const detail2 = "detail" in problem ? String(problem.detail) : `HTTP ${response.status}`;
  if (code === "not_ready") return new Unreachable(detail2);
  const faults2 = "errors" in problem && Array.isArray(problem.errors) ? problem.errors : [];
  return new Refused(response.status, code, detail2, faults2);
}

// src/daemon/resources.ts
var SHORTEST_MS = 500;
var MOST_KEPT = 600;
var FIXED_AT_ONCE = 3;
var Resources = class {
  constructor(api, onLoaded) {
    this.api = api;
    this.onLoaded = onLoaded;
  }
  api;
  onLoaded;
  #entries = /* @__PURE__ */ new Map();
  #fail = null;
  #hasFailed = false;
  #timer;
  /** What was loaded of an address; it is loaded if need be, and drawn then. */
  read(key, load = (api) => api.get(key), isFixed = false) {
    const entry = this.#entries.get(key) ?? this.#begin(key, load, isFixed);
    entry.isWanted = true;
    entry.load = load;
    return entry.value;
  }
  /** What has gone wrong with what the page needs. */
  problems() {
    const wrong = [...this.#entries.values()].filter((entry) => entry.isWanted && entry.problem);
    return [...new Set(wrong.map((entry) => entry.problem?.message ?? ""))];
  }
  /** What is known, without asking. */
  peek(key) {
    return this.#entries.get(key)?.value;
  }
  /** Changes what is known without asking. */
  update(key, change2) {
    const value = this.#entries.get(key)?.value;
    if (value === void 0 || value === null) return false;
    change2(value);
    return true;
  }
  /** Before the views read. */
  beginDraw() {
    for (const entry of this.#entries.values()) entry.isWanted = false;
  }
  /** After the views have read: load what they miss, forget what nobody has shown for long. */
  endDraw() {
    for (const [key, entry] of this.#entries) {
      if (entry.isWanted) continue;
      if (entry.value === void 0) entry.abort?.abort();
      entry.isStale ||= !entry.isFixed;
      if (this.#entries.size > MOST_KEPT) this.#entries.delete(key);
    }
    this.#kick();
  }
  /** The addresses at or below these were changed. */
  mark(places) {
    for (const [key, entry] of this.#entries) {
      entry.isStale ||= !entry.isFixed && places.some((place) => isBelow(key, place));
    }
    this.#kick();
  }
  /** The same, and resolves when what the page shows of them is loaded anew. */
  async refresh(places) {
    const shown2 = [...this.#entries].filter(
      ([key, entry]) => entry.isWanted && places.some((place) => isBelow(key, place))
    );
    this.mark(places);
    await Promise.all(shown2.map(async ([, entry]) => {
      await entry.loading;
      if (entry.isStale) await this.#load(entry);
    }));
  }
  /** Load from now on, beginning with all that the page needs. Resolves with whether that is there. */
  async open(fail) {
    this.#fail = fail;
    this.#hasFailed = false;
    for (const entry of this.#entries.values()) entry.isStale ||= !entry.isFixed;
    const wanted = [...this.#entries.values()].filter((entry) => entry.isWanted && !entry.isFixed);
    await Promise.all(wanted.map((entry) => this.#load(entry)));
    return !this.#hasFailed;
  }
  close() {
    this.#fail = null;
    clearTimeout(this.#timer);
  }
  #begin(key, load, isFixed) {
    const entry = {
      load,
      value: void 0,
      problem: null,
      isStale: true,
      isWanted: true,
      isFixed,
      abort: null,
      loading: null,
      loadedAt: -Infinity
    };
    this.#entries.set(key, entry);
    return entry;
  }
  #kick() {
    clearTimeout(this.#timer);
    if (this.#fail === null) return;
    const now = performance.now();
    let next = Infinity;
    let fixed2 = [...this.#entries.values()].filter((entry) => entry.isFixed && entry.loading).length;
    for (const entry of this.#entries.values()) {
      if (!entry.isWanted || !entry.isStale || entry.loading !== null) continue;
      const due = entry.loadedAt + SHORTEST_MS;
      if (entry.isFixed && (fixed2 += 1) > FIXED_AT_ONCE) continue;
      if (due <= now) void this.#load(entry);
      else next = Math.min(next, due);
    }
    if (next < Infinity) this.#timer = setTimeout(() => this.#kick(), next - now);
  }
  async #load(entry) {
    entry.loading ??= this.#loaded(entry).finally(() => {
      entry.loading = null;
      this.#kick();
    });
    await entry.loading;
  }
  async #loaded(entry) {
    entry.isStale = false;
    const { signal } = entry.abort = new AbortController();
    try {
      entry.value = await entry.load(this.api, entry.value, signal);
      entry.problem = null;
    } catch (error) {
      if (signal.aborted) {
        entry.isStale = true;
        return;
      }
      if (!(error instanceof Refused) || error.status === 401) {
        entry.isStale = true;
        this.#hasFailed = true;
        this.#fail?.(error);
        return;
      }
      entry.value = null;
      entry.problem = error.status === 404 ? null : error;
    }
    entry.loadedAt = performance.now();
    this.onLoaded();
  }
};
function isBelow(key, place) {
  return key.startsWith(place) && (/[/?]$/.test(place) || /^([/?]|$)/.test(key.slice(place.length)));
}

// src/app/route.ts
var HOME = "/dashboard";
function routeOf({ pathname, search }) {
  const rest = pathname.startsWith(HOME) ? pathname.slice(HOME.length) : "";
  return { parts: rest.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(search) };
}
function to(parts, query = {}) {
  const path = [HOME, ...parts.map((part) => encodeURIComponent(part))].join("/");
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== "");
  const text2 = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length === 0 ? path : `${path}?${text2}`;
}
function followed(event) {
  const link = event.target instanceof Element ? event.target.closest("a") : null;
  const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
  if (link === null || !isPlain || link.target !== "" || link.hasAttribute("download")) return null;
  const isOurs = link.origin === location.origin && `${link.pathname}/`.startsWith(`${HOME}/`);
  return isOurs ? `${link.pathname}${link.search}` : null;
}
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// src/app/state.ts
function emptyState() {
  return {
    connection: "connecting",
    lostSince: null,
    pending: /* @__PURE__ */ new Set(),
    results: /* @__PURE__ */ new Map(),
    toasts: [],
    hover: null,
    drafts: /* @__PURE__ */ new Map()
  };
}

// src/app/app.ts
var WIDEST_CHART = 1100;
var CARD_PADDING = 42;
var TOAST_MS = 8e3;
var App = class {
  constructor(api, draw) {
    this.api = api;
    this.draw = draw;
    this.resources = new Resources(api, draw);
  }
  api;
  draw;
  state = emptyState();
  resources;
  route = routeOf(location);
  /** The open dialog, drawn anew with the page. */
  dialog = null;
  #toasts = 0;
  /** Of the room for a chart, in pixels. */
  get width() {
    const room = document.getElementById("main")?.clientWidth ?? 700;
    return Math.max(240, Math.min(room - CARD_PADDING, WIDEST_CHART));
  }
  /** To another page of the console. isSame: the same page, with another filter or order. */
  go(href, { isSame = false } = {}) {
    if (isSame) history.replaceState(null, "", href);
    else history.pushState(null, "", href);
    this.moved(isSame);
  }
  /** The address has changed. */
  moved(isSame = false) {
    this.route = routeOf(location);
    if (!isSame) {
      this.dialog = null;
      this.state.results.clear();
    }
    this.draw();
  }
  /** A form's draft, which begins as `initial`. */
  draft(name, initial) {
    const known = this.state.drafts.get(name);
    if (known !== void 0) return known;
    const begun = initial();
    this.state.drafts.set(name, begun);
    return begun;
  }
  toast(said2) {
    const { text: text2, link } = typeof said2 === "string" ? { text: said2, link: null } : said2;
    const toast = { id: ++this.#toasts, text: text2, link };
    this.state.toasts = [...this.state.toasts.slice(-2), toast];
    setTimeout(() => this.forgetToast(toast.id), TOAST_MS);
    this.draw();
  }
  forgetToast(id) {
    this.state.toasts = this.state.toasts.filter((toast) => toast.id !== id);
    this.draw();
  }
  open(dialog2) {
    this.dialog = dialog2;
    this.draw();
  }
  close() {
    this.dialog = null;
    this.draw();
  }
  /**
   * Carries out what a button asks for. It waits until the page shows what came of it: a second
   * click is dropped. stale: the addresses that it changes. Whether it worked.
   */
  async act(name, stale, run) {
    const { pending, results } = this.state;
    if (pending.has(name)) return false;
    pending.add(name);
    results.delete(name);
    this.draw();
    try {
      const said2 = await run();
      await this.resources.refresh(stale);
      if (said2 !== null) this.toast(said2);
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
};
function resultOf(error) {
  if (error instanceof Refused) return { text: error.message, faults: error.faults };
  return { text: `${error.message}; try again`, faults: [] };
}

// src/page/dom.ts
var HANDLERS = [
  "onclick",
  "onchange",
  "oninput",
  "onsubmit",
  "onkeydown",
  "onpointermove",
  "onpointerdown",
  "onpointerenter",
  "onpointerleave",
  "onfocus",
  "onblur",
  "ondragover",
  "ondragleave",
  "ondrop",
  "onpaint"
];
var SVG = "http://www.w3.org/2000/svg";
function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}
function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}
function paint(root2) {
  for (const canvas of root2.querySelectorAll("canvas")) {
    canvas.onpaint?.(canvas);
  }
}
function element(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} with id ${id}`);
  return found;
}
function filled(element2, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") Object.assign(element2, { [name]: value });
    else if (value !== null && value !== false) {
      element2.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element2, children);
  return element2;
}
function append(element2, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element2, child);
    else if (child !== null && child !== false) element2.append(child);
  }
}
function patch(present, wanted) {
  patchAttributes(present, wanted);
  removeUnwanted(present, wanted);
  const keyed = new Map([...present.children].map((child) => [keyOf(child), child]));
  let cursor = present.firstChild;
  for (const next of [...wanted.childNodes]) {
    const match = counterpart(next, cursor, keyed);
    if (match === null) {
      present.insertBefore(next, cursor);
      continue;
    }
    if (match === cursor) cursor = cursor.nextSibling;
    else present.insertBefore(match, cursor);
    if (match instanceof Element) patch(match, next);
    else if (match.nodeValue !== next.nodeValue) match.nodeValue = next.nodeValue;
  }
  while (cursor !== null) {
    const after = cursor.nextSibling;
    cursor.remove();
    cursor = after;
  }
}
function removeUnwanted(present, wanted) {
  const kept = new Set([...wanted.children].map(keyOf));
  for (const child of [...present.children]) {
    if (!kept.has(keyOf(child))) child.remove();
  }
}
function counterpart(next, cursor, keyed) {
  const key = keyOf(next);
  const found = key === null ? cursor : keyed.get(key) ?? null;
  const fits = found !== null && found.nodeName === next.nodeName && keyOf(found) === key;
  return fits ? found : null;
}
function keyOf(node) {
  return node instanceof Element ? node.getAttribute("data-key") : null;
}
function patchAttributes(present, wanted) {
  const handlers = present;
  for (const name of HANDLERS) handlers[name] = wanted[name];
  for (const name of present.getAttributeNames()) {
    if (!wanted.hasAttribute(name) && name !== "open") present.removeAttribute(name);
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (present.getAttribute(name) !== value) present.setAttribute(name, value);
  }
}

// src/daemon/events.ts
var EventParser = class {
  /** What to send as Last-Event-ID; changes when a block is complete. */
  lastId;
  #rest = "";
  #id;
  #type = "";
  #data = [];
  constructor(lastId = "") {
    this.lastId = lastId;
    this.#id = lastId;
  }
  /** The events that the text completes. */
  feed(text2) {
    const frames = [];
    this.#rest += text2;
    const held = this.#rest.endsWith("\r") ? 1 : 0;
    const lines = this.#rest.slice(0, this.#rest.length - held).split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? "") + (held ? "\r" : "");
    for (const line of lines) {
      if (line === "") this.#dispatch(frames);
      else this.#take(line);
    }
    return frames;
  }
  #take(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.#type = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }
  #dispatch(frames) {
    this.lastId = this.#id;
    if (this.#data.length > 0) {
      frames.push({ type: this.#type || "message", data: this.#data.join("\n") });
    }
    this.#type = "";
    this.#data = [];
  }
};
async function readEvents(body, parser, onEvent, onBytes) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (; ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    for (const frame of parser.feed(value)) onEvent(frame);
  }
}

// src/app/happenings.ts
var EVERYTHING = ["/v1/"];
function staleAfter(happened) {
  const [family] = happened.type.split(".");
  if (family === "job") return ["/v1/jobs", "/v1/device"];
  if (family === "device" || family === "policy") return ["/v1/device", "/v1/policy", "/v1/jobs"];
  if (family === "storage") return ["/v1/verification", "/readyz"];
  if (happened.type === "events.lost" || happened.model === null) return EVERYTHING;
  if (family === "checkpoint") return [];
  const changed = ["/v1/models?", modelPath(happened.model)];
  return happened.type === "model.deleted" ? [...changed, "/v1/jobs"] : changed;
}
function applyProgress(resources, data) {
  const id = data.job_id;
  let isKnown = false;
  const take = (job2) => {
    if (job2.id !== id) return;
    isKnown = true;
    for (const name of Object.keys(job2.progress)) {
      const value = data[name];
      if (typeof value === "number" || value === null) Object.assign(job2.progress, { [name]: value });
    }
    if (typeof data.train_loss === "number") job2.metrics.train_loss = data.train_loss;
  };
  resources.update("/v1/jobs?state=running", (jobs2) => jobs2.forEach(take));
  resources.update(`/v1/jobs/${String(id)}`, take);
  return isKnown;
}
function parse(data) {
  const told3 = JSON.parse(data);
  if (typeof told3 !== "object" || told3 === null || !("type" in told3)) return null;
  const { type, model: model2, data: fields2 } = told3;
  return { type: String(type), model: model2 ?? null, data: fields2 ?? {} };
}

// src/daemon/waiting.ts
function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) {
      resolve();
      return;
    }
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end);
  });
}
function visible() {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    look();
  });
}
var Watchdog = class {
  constructor(milliseconds, controller) {
    this.milliseconds = milliseconds;
    this.controller = controller;
    this.alive();
  }
  milliseconds;
  controller;
  #timer;
  alive() {
    this.stop();
    this.#timer = setTimeout(() => this.controller.abort(), this.milliseconds);
  }
  stop() {
    clearTimeout(this.#timer);
  }
};

// src/app/live.ts
var POLL_MS = 2e3;
var RETRY_MS = 1e3;
var SLOWEST_RETRY_MS = 5e3;
var SILENCE_MS = 6e4;
var LOOK_AGAIN_MS = 1e4;
var Live = class {
  constructor(app) {
    this.app = app;
  }
  app;
  #lastId = "";
  #failures = 0;
  /** Until the token is refused; rejects with that refusal. A hidden page asks nothing. */
  async run() {
    for (; ; ) {
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
  async #connected() {
    const controller = new AbortController();
    const { signal } = controller;
    const { resources, api } = this.app;
    const hide = () => controller.abort();
    document.addEventListener("visibilitychange", hide, { once: true });
    const again = setInterval(() => resources.mark(["/v1/device", "/v1/jobs"]), LOOK_AGAIN_MS);
    const watchdog = new Watchdog(SILENCE_MS, controller);
    try {
      const headers = this.#lastId ? { "Last-Event-ID": this.#lastId } : {};
      const stream = await api.stream("/v1/events", headers, signal);
      const failed = new Promise((_, reject) => {
        void resources.open(reject).then((isWhole) => {
          if (isWhole) this.#connect(stream === null ? "polling" : "live");
        });
      });
      const told3 = stream === null ? this.#poll(signal, watchdog) : this.#follow(stream, watchdog);
      await Promise.race([told3, failed]);
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
  async #follow(stream, watchdog) {
    const parser = new EventParser(this.#lastId);
    const onEvent = (frame) => this.#take(frame);
    try {
      await readEvents(stream, parser, onEvent, () => watchdog.alive());
    } catch (error) {
      throw new Unreachable("the events broke off", { cause: error });
    } finally {
      this.#lastId = parser.lastId;
    }
    throw new Unreachable("the daemon ended the events");
  }
  async #poll(signal, watchdog) {
    while (!signal.aborted) {
      await pause(POLL_MS, signal);
      watchdog.alive();
      this.app.resources.mark(EVERYTHING);
    }
  }
  #take(frame) {
    const happened = parse(frame.data);
    if (happened === null) return;
    const { resources } = this.app;
    if (happened.type === "job.progress" && applyProgress(resources, happened.data)) {
      resources.mark([`/v1/jobs/${String(happened.data.job_id)}/metrics`]);
      this.app.draw();
    } else {
      resources.mark(staleAfter(happened));
    }
  }
  #connect(connection) {
    const { state, draw } = this.app;
    this.#failures = 0;
    state.connection = connection;
    state.lostSince = null;
    draw();
  }
  /** The daemon may only be restarting: it counts as lost when it does not answer again. */
  #lose(error) {
    const { state, draw } = this.app;
    console.info("honed: the connection is lost;", error);
    this.#failures += 1;
    state.lostSince ??= /* @__PURE__ */ new Date();
    state.connection = this.#failures > 1 ? "lost" : "connecting";
    draw();
  }
};

// src/page/format.ts
var MINUTE_S = 60;
var HOUR_S = 3600;
var DAY_S = 86400;
var whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
function count(value) {
  return whole.format(value);
}
function decimal(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return Number(value.toPrecision(3)).toExponential();
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}
function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
function duration(seconds) {
  const total2 = Math.max(0, Math.round(seconds));
  if (total2 < MINUTE_S) return `${total2} s`;
  if (total2 < HOUR_S) return `${Math.floor(total2 / MINUTE_S)} min ${total2 % MINUTE_S} s`;
  if (total2 < DAY_S) return `${Math.floor(total2 / HOUR_S)} h ${Math.floor(total2 % HOUR_S / MINUTE_S)} min`;
  return `${Math.floor(total2 / DAY_S)} d ${Math.floor(total2 % DAY_S / HOUR_S)} h`;
}
function ago(then, now) {
  const seconds = (now.getTime() - then.getTime()) / 1e3;
  if (seconds < MINUTE_S) return "just now";
  if (seconds < HOUR_S) return `${Math.floor(seconds / MINUTE_S)} min ago`;
  if (seconds < DAY_S) return `${Math.floor(seconds / HOUR_S)} h ago`;
  return then.toLocaleDateString(void 0, { day: "numeric", month: "short", year: "numeric" });
}
function clock(moment) {
  const then = new Date(moment);
  const isToday = then.toDateString() === (/* @__PURE__ */ new Date()).toDateString();
  const date = isToday ? {} : { day: "numeric", month: "short" };
  return then.toLocaleString(void 0, { ...date, hour: "2-digit", minute: "2-digit" });
}
function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}
var UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
function bytes(value) {
  const power2 = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), UNITS.length - 1);
  return `${(value / 1024 ** power2).toLocaleString("en", { maximumSignificantDigits: 3 })} ${UNITS[power2]}`;
}

// src/page/words.ts
var CONDITIONS = {
  another_job: "Another job is training",
  asleep: "The device goes to sleep",
  battery: "The battery is low",
  battery_saver: "Battery saver is on",
  cpu_pressure: "Programs wait for the processor",
  daemon_stopped: "The daemon was stopped",
  daily_limit: "Enough for today",
  disk: "The disk is nearly full",
  foreign_cpu: "Other programs need the processor",
  io_pressure: "Programs wait for the disk",
  memory: "Memory is short",
  memory_pressure: "Programs wait for memory",
  paused: "Paused",
  paused_by_person: "Paused by a person",
  power: "Not on mains power",
  processes: "A program comes first",
  snoozed: "Snoozed",
  starting: "The daemon is starting",
  temperature: "The device is hot",
  user_idle: "Somebody uses the device",
  window: "Not in the hours for training"
};
var UNKNOWN = {
  battery: "The battery’s charge is unknown",
  battery_saver: "Whether battery saver is on is unknown",
  cpu_pressure: "The load of the processor is unknown",
  disk: "The free disk space is unknown",
  foreign_cpu: "The load by other programs is unknown",
  io_pressure: "The load of the disk is unknown",
  memory: "The free memory is unknown",
  memory_pressure: "The load of the memory is unknown",
  power: "Whether mains power is on is unknown",
  processes: "Which programs run is unknown",
  temperature: "The temperature is unknown",
  user_idle: "Whether somebody uses the device is unknown",
  window: "The local time is unknown"
};
function condition(blocker) {
  const isUnknown = /^(\w+ is|the local time is) unknown\b/.test(blocker.detail);
  const known = (isUnknown ? UNKNOWN : CONDITIONS)[blocker.condition] ?? CONDITIONS[blocker.condition];
  if (known !== void 0) return known;
  const words = blocker.condition.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
var STATES = {
  queued: "waiting",
  running: "training",
  paused: "paused",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled"
};
var MEASURES = [
  { key: "accuracy", name: "accuracy", isShare: true },
  { key: "mae", name: "mean absolute error", isShare: false },
  { key: "loss", name: "loss", isShare: false }
];
function measure(metrics, baseline, preferred) {
  const inOrder = [...MEASURES].sort((a, b) => Number(b.key === preferred) - Number(a.key === preferred));
  for (const { key, name, isShare } of inOrder) {
    const after = metrics[key];
    const before = baseline[key];
    if (typeof after === "number") {
      return { name, isShare, after, before: typeof before === "number" ? before : null };
    }
  }
  return null;
}

// src/views/parts/parts.ts
function press(app, { name, label: label2, about, kind, stale = [], disabled, run }) {
  const { pending, connection } = app.state;
  return h(
    "span",
    { class: "press", "data-key": name },
    h(
      "button",
      {
        type: "button",
        class: kind ?? null,
        "data-key": name,
        "aria-label": about ? `${label2} ${about}` : null,
        disabled: pending.has(name) || connection === "lost" || disabled === true,
        onclick: () => void app.act(name, stale, run)
      },
      label2
    ),
    outcome(app, name)
  );
}
function outcome(app, name) {
  const result = app.state.results.get(name);
  if (result === void 0) return null;
  return h(
    "span",
    { class: "outcome problem", role: "alert", "data-key": "outcome" },
    result.text,
    result.faults.length > 0 && h("ul", {}, result.faults.map((fault) => h("li", {}, faultText(fault))))
  );
}
function faultText({ pointer, detail: detail2 }) {
  return pointer === "" ? [detail2] : [h("code", {}, pointer), ` ${detail2}`];
}
function opener(name, label2, onclick, about = "", kind = null) {
  return h(
    "button",
    { type: "button", class: kind, "data-key": name, "aria-label": about ? `${label2} ${about}` : null, onclick },
    label2
  );
}
function badge(kind, text2) {
  return h("span", { class: `badge ${kind}` }, text2 ?? STATES[kind]);
}
function blockers(blocked) {
  return h(
    "ul",
    { class: "blockers" },
    blocked.map(
      (each2) => h("li", { "data-key": each2.condition }, h("strong", {}, condition(each2)), ` ${each2.detail}`)
    )
  );
}
function when(time) {
  const then = new Date(time);
  return h("time", { datetime: time, title: then.toLocaleString() }, ago(then, /* @__PURE__ */ new Date()));
}
function fact(name, value) {
  return h("div", { class: "fact", "data-key": name }, h("dt", {}, name), h("dd", {}, value));
}
function section(title, attributes, ...children) {
  const { id } = attributes;
  return h(
    "section",
    { class: `card ${attributes.class ?? ""}`.trim(), "data-key": id, "aria-labelledby": id },
    h("h2", { id }, title),
    children
  );
}
function scrolled(label2, ...children) {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label2 }, children);
}
function heading(title, ...beside) {
  return h("div", { class: "heading", "data-key": "heading" }, h("h1", { tabindex: -1 }, title), beside);
}
function loading() {
  return h("p", { class: "quiet", "data-key": "loading" }, "Asking the daemon …");
}
var JOBS = ["/v1/jobs", "/v1/device"];
function jobButtons(app, job2) {
  const about = `job ${job2.id}`;
  const move = (verb, label2, body) => press(app, {
    name: `${verb}${body ? "-anyway" : ""}:${job2.id}`,
    label: label2,
    about,
    stale: JOBS,
    run: async () => {
      await app.api.post(`/v1/jobs/${job2.id}/${verb}`, body);
      return null;
    }
  });
  const isPausedByHand = job2.blocked_by.some((each2) => each2.condition === "paused_by_person");
  const isHeld = job2.blocked_by.some((each2) => !["another_job", "paused_by_person"].includes(each2.condition));
  const waits = job2.state === "queued" || job2.state === "paused";
  return [
    ...job2.state === "running" ? [move("pause", "Pause")] : [],
    ...job2.state === "paused" && isPausedByHand ? [move("resume", "Resume")] : [],
    ...waits && isHeld && !job2.ignore_policy ? [move("resume", "Run anyway", { ignore_policy: true })] : [],
    cancelButton(app, job2)
  ];
}
function cancelButton(app, job2) {
  const ask = () => confirm(app, {
    title: `Cancel job ${job2.id}?`,
    detail: "It ends at its next step and makes no version. It cannot be resumed.",
    no: "Keep it",
    yes: "Cancel the job",
    name: `cancel:${job2.id}`,
    stale: JOBS,
    run: async () => {
      await app.api.post(`/v1/jobs/${job2.id}/cancel`);
      return `Job ${job2.id} was cancelled.`;
    }
  });
  const isOff = app.state.pending.has(`cancel:${job2.id}`) || app.state.connection === "lost";
  return h(
    "button",
    { type: "button", "data-key": `ask-cancel:${job2.id}`, "aria-label": `Cancel job ${job2.id}`, disabled: isOff, onclick: ask },
    "Cancel"
  );
}
function confirm(app, question) {
  const { title, detail: detail2, no = "Keep it", yes, name, stale, run } = question;
  app.open(() => {
    const press3 = async () => {
      if (await app.act(name, stale, run)) app.close();
    };
    return h(
      "div",
      { class: "question", "data-key": name },
      h("h2", { id: "dialog-title" }, title),
      h("p", {}, detail2),
      outcome(app, name),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => app.close() }, no),
        h(
          "button",
          { type: "button", class: "danger", disabled: app.state.pending.has(name), onclick: () => void press3() },
          yes
        )
      )
    );
  });
}

// src/views/models/add.ts
var NAME = "add-model";
var LOSSES = [
  ["cross_entropy", "cross entropy: one of several classes"],
  ["bce_with_logits", "binary cross entropy: each of several yes or no"],
  ["mse", "mean squared error: numbers"],
  ["l1", "absolute error: numbers"],
  ["huber", "Huber: numbers, with outliers"]
];
var OPTIMIZERS = ["adamw", "adam", "sgd", "rmsprop", "lion"];
var PREPROCESS = {
  image: { kind: "image" },
  gray: { kind: "image", channels: "gray" },
  standardize: { kind: "standardize" }
};
function addPage(app) {
  const draft = app.draft(NAME, () => ({ file: null }));
  const take = (file) => {
    if (!file) return;
    draft.file = file;
    app.state.results.delete(NAME);
    app.draw();
  };
  const send2 = (event) => {
    event.preventDefault();
    void register(app, draft, new FormData(event.currentTarget));
  };
  return [
    heading("Add a model"),
    h(
      "form",
      {
        class: "card form",
        novalidate: true,
        "data-key": "form",
        onsubmit: send2,
        ondragover: (event) => event.preventDefault(),
        ondrop: (event) => {
          event.preventDefault();
          take(event.dataTransfer?.files[0]);
        }
      },
      fileField(app, draft, take),
      fields(app, draft),
      others(app),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "submit", class: "primary", disabled: draft.file === null || app.state.pending.has(NAME) }, "Register the model"),
        app.state.pending.has(NAME) && h("span", { class: "quiet", role: "status" }, "The daemon prepares the model. That may take a minute.")
      )
    )
  ];
}
function fileField(app, { file }, take) {
  return h(
    "div",
    { class: "drop", "data-key": "file", role: "group", "aria-label": "The file" },
    h("p", { class: "quiet" }, file === null ? "Drop a forward ONNX file here, or" : h("span", {}, h("strong", {}, file.name), ` ${bytes(file.size)}`)),
    h(
      "label",
      { class: "file" },
      file === null ? "Choose a file" : "Choose another",
      h("input", {
        type: "file",
        accept: ".onnx,.zip",
        class: "visually-hidden",
        onchange: (event) => take(event.currentTarget.files?.[0])
      })
    ),
    faults(app, "/model"),
    faults(app, "/artifacts")
  );
}
function fields(app, { file }) {
  const field2 = (name, title, control2) => h("label", { "data-key": name }, h("span", {}, title), control2, faults(app, `/spec/${name}`));
  const text2 = (name, placeholder) => h("input", { name, type: "text", placeholder, autocomplete: "off", spellcheck: "false", "aria-invalid": faultsAt(app, `/spec/${name}`).length > 0 });
  return h(
    "div",
    { class: "fields" },
    field2("name", "Name", text2("name", nameOf(file) ?? "digits")),
    field2("loss", "Loss", h("select", { name: "loss" }, LOSSES.map(([value, words]) => h("option", { value }, words)))),
    field2("classes", "Classes, with commas between", text2("classes", "cat, dog; none: by number")),
    field2("trainable", "What trains", text2("trainable", "head, last:2, classifier.*; none: all weights")),
    field2("optimizer", "Optimizer", h("select", { name: "optimizer" }, OPTIMIZERS.map((value) => h("option", { value }, value)))),
    field2("output", "Output that the loss takes", text2("output", "the graph’s only output")),
    field2(
      "preprocess",
      "Samples are",
      h("select", { name: "preprocess" }, h("option", { value: "" }, "tensors as the model takes them"), h("option", { value: "image" }, "colour pictures"), h("option", { value: "gray" }, "gray pictures"), h("option", { value: "standardize" }, "numbers to standardize"))
    )
  );
}
function nameOf(file) {
  return file === null ? null : file.name.replace(/\.\w+$/, "").toLowerCase().replace(/[^a-z0-9_.-]+/g, "-");
}
function others(app) {
  const result = app.state.results.get(NAME);
  if (result === void 0) return null;
  const known = ["/model", "/artifacts", ...["name", "loss", "classes", "trainable", "optimizer", "output", "preprocess"].map((name) => `/spec/${name}`)];
  const rest = result.faults.filter(({ pointer }) => !known.some((place) => isAt(pointer, place)));
  return h(
    "div",
    { class: "problem", role: "alert", "data-key": "problem" },
    h("p", {}, result.text),
    rest.length > 0 && h("ul", {}, rest.map(({ pointer, detail: detail2 }) => h("li", {}, h("code", {}, pointer), ` ${detail2}`)))
  );
}
function faults(app, place) {
  return faultsAt(app, place).map((detail2) => h("span", { class: "problem" }, detail2));
}
function faultsAt(app, place) {
  const all = app.state.results.get(NAME)?.faults ?? [];
  return [...new Set(all.filter(({ pointer }) => isAt(pointer, place)).map(({ detail: detail2 }) => detail2))];
}
function isAt(pointer, place) {
  return pointer === place || pointer.startsWith(`${place}/`);
}
async function register(app, draft, given) {
  const { file } = draft;
  if (file === null) return;
  const body = new FormData();
  body.append("spec", JSON.stringify(specOf(file, given)));
  body.append(file.name.endsWith(".zip") ? "artifacts" : "model", file, file.name);
  const done = [];
  await app.act(NAME, ["/v1/models?"], async () => {
    const model2 = await app.api.upload("/v1/models", body);
    done.push(model2.name);
    return `${model2.name} is registered; its version 1 is the model as it came.`;
  });
  const [name] = done;
  if (name === void 0) return;
  app.state.drafts.delete(NAME);
  app.go(to(["models", name, "samples"]));
}
function specOf(file, given) {
  const text2 = (name) => String(given.get(name) ?? "").trim();
  const listed = (name) => text2(name).split(",").map((part) => part.trim()).filter(Boolean);
  const [classes, trainable] = [listed("classes"), listed("trainable")];
  return {
    name: text2("name") || nameOf(file),
    loss: text2("loss"),
    optimizer: text2("optimizer"),
    ...classes.length > 0 ? { classes } : {},
    ...trainable.length > 0 ? { trainable } : {},
    ...text2("output") ? { output: text2("output") } : {},
    ...text2("preprocess") ? { preprocess: [PREPROCESS[text2("preprocess")]] } : {}
  };
}

// src/page/conditions.ts
var asPercent = (value) => `${decimal(value)} %`;
var LEVELS = [
  { name: "battery", title: "Battery", signal: "battery_percent", show: asPercent, stop: "min_battery_percent", resume: "resume_battery_percent", isMinimum: true },
  { name: "foreign_cpu", title: "Load by other programs", signal: "foreign_cpu_percent", show: asPercent, stop: "max_foreign_cpu_percent", isMinimum: false },
  { name: "cpu_pressure", title: "Waiting for the processor", signal: "cpu_pressure_percent", show: asPercent, stop: "max_cpu_pressure_percent", isMinimum: false },
  { name: "memory_pressure", title: "Waiting for memory", signal: "memory_pressure_percent", show: asPercent, stop: "max_memory_pressure_percent", isMinimum: false },
  { name: "io_pressure", title: "Waiting for the disk", signal: "io_pressure_percent", show: asPercent, stop: "max_io_pressure_percent", isMinimum: false },
  { name: "temperature", title: "Temperature", signal: "temperature_c", show: (value) => `${decimal(value)} °C`, stop: "max_temperature_c", resume: "resume_temperature_c", isMinimum: false },
  { name: "memory", title: "Free memory", signal: "available_memory_bytes", show: bytes, stop: "min_free_memory_bytes", resume: "resume_free_memory_bytes", isMinimum: true },
  { name: "disk", title: "Free disk space", signal: "free_disk_bytes", show: bytes, stop: "min_free_disk_bytes", resume: "resume_free_disk_bytes", isMinimum: true }
];
function conditionsOf(device2, policy2) {
  const blocking = new Set(device2.blocked_by.map((each2) => each2.condition));
  const [battery, ...others2] = LEVELS.map((level2) => fromLevel(level2, device2, policy2));
  const found = [power(device2, policy2), battery, saver(device2, policy2), idle(device2, policy2), ...others2, ...byTime(device2, policy2)];
  return found.filter((each2) => each2 !== void 0).map((each2) => ({ share: null, ...each2, isBlocking: blocking.has(each2.name) }));
}
function fromLevel({ name, title, signal, show, stop, resume, isMinimum }, device2, policy2) {
  const { value, note: note2 } = told(device2.signals[signal], (raw2) => show(Number(raw2)));
  const limit2 = policy2[stop];
  if (typeof limit2 !== "number") return { name, title, value, note: note2, limit: null };
  const back = resume === void 0 ? null : policy2[resume];
  const until = typeof back === "number" && back !== limit2 ? `, resumes at ${show(back)}` : "";
  const raw = device2.signals[signal]?.value;
  const share = typeof raw === "number" && !isMinimum ? Math.min(1, raw / limit2) : null;
  return { name, title, value, note: note2, limit: `${isMinimum ? "at least" : "at most"} ${show(limit2)}${until}`, share };
}
function power(device2, policy2) {
  const read = told(device2.signals.on_ac_power, (raw) => raw === true ? "mains" : "battery");
  return { name: "power", title: "Power", ...read, limit: policy2.require_ac_power === true ? "mains" : null };
}
function saver(device2, policy2) {
  const read = told(device2.signals.battery_saver, (raw) => raw === true ? "on" : "off");
  return { name: "battery_saver", title: "Battery saver", ...read, limit: policy2.obey_battery_saver === true ? "off" : null };
}
function idle(device2, policy2) {
  const read = told(device2.signals.user_idle_s, (raw) => duration(Number(raw)));
  const limit2 = policy2.require_idle === true ? `at least ${duration(Number(policy2.idle_minutes) * 60)}` : null;
  return { name: "user_idle", title: "Time without input", ...read, limit: limit2 };
}
function byTime(device2, policy2) {
  const windows = Array.isArray(policy2.windows) ? policy2.windows.length : 0;
  const programs = Array.isArray(policy2.blocking_processes) ? policy2.blocking_processes.map(String) : [];
  const most = policy2.max_minutes_per_day;
  const trained = device2.trained_today_seconds;
  const daily = {
    name: "daily_limit",
    title: "Trained today",
    value: duration(trained),
    note: "",
    limit: typeof most === "number" ? `at most ${duration(most * 60)}` : null,
    share: typeof most === "number" && most > 0 ? Math.min(1, trained / (most * 60)) : null
  };
  const clock3 = told(device2.signals.local_time, (raw) => timeOfDay(String(raw)));
  const running = told(device2.signals.running_processes, (raw) => Array.isArray(raw) && raw.length > 0 ? raw.join(", ") : "none");
  return [
    { name: "window", title: "Time", ...clock3, limit: windows > 0 ? `within ${windows === 1 ? "one window" : `${windows} windows`} of the week` : null },
    { name: "processes", title: "Programs that come first", ...running, limit: programs.length > 0 ? `none of ${programs.join(", ")}` : null },
    daily
  ];
}
function told(signal, show) {
  if (signal === void 0) return { value: "unknown", note: "" };
  if (signal.value === null) return { value: "unknown", note: signal.detail };
  return { value: show(signal.value), note: signal.source };
}
function timeOfDay(time) {
  return time.slice(11, 16);
}

// src/app/queries.ts
var CURVE_PAGE = 500;
var VERSIONS_SHOWN = 50;
var NEWEST_JOBS = 100;
var ENDED = /* @__PURE__ */ new Set(["succeeded", "failed", "cancelled"]);
function device(app) {
  return app.resources.read("/v1/device");
}
function policy(app) {
  return app.resources.read("/v1/policy");
}
function models(app) {
  return app.resources.read("/v1/models?all", (api) => api.all("/v1/models"));
}
function model(app, name) {
  return app.resources.read(modelPath(name));
}
function versions(app, name) {
  const path = withQuery(modelPath(name, "/versions"), { limit: VERSIONS_SHOWN });
  return app.resources.read(path)?.items;
}
function stats(app, name) {
  return app.resources.read(modelPath(name, "/samples/stats"));
}
function jobs(app) {
  const lists = ["running", "queued", "paused"].map(
    (state) => app.resources.read(`/v1/jobs?state=${state}`, (api) => api.all(`/v1/jobs?state=${state}`))
  );
  const newest = app.resources.read(`/v1/jobs?limit=${NEWEST_JOBS}`);
  if (lists.includes(void 0) || newest === void 0) return void 0;
  const [running, queued, paused] = lists.map((list2) => list2 ?? []);
  return {
    running: running ?? [],
    waiting: distinct([...queued ?? [], ...paused ?? []]).sort((a, b) => a.id - b.id),
    ended: (newest?.items ?? []).filter((job2) => ENDED.has(job2.state)).sort((a, b) => (b.finished_at ?? "").localeCompare(a.finished_at ?? ""))
  };
}
function job(app, id) {
  return app.resources.read(`/v1/jobs/${id}`);
}
function isOver(job2) {
  return ENDED.has(job2.state);
}
function curve(app, job2) {
  const key = `/v1/jobs/${job2.id}/metrics`;
  const load = (api, before) => loadCurve(api, job2, before);
  const read = app.resources.read(key, load);
  return read ? [...read.complete, ...read.tail] : void 0;
}
async function loadCurve(api, job2, before) {
  const known = before?.restarts === job2.restarts ? before : null;
  const complete = [...known?.complete ?? []];
  let cursor = known?.tailCursor ?? null;
  for (; ; ) {
    const path = withQuery(`/v1/jobs/${job2.id}/metrics`, { limit: CURVE_PAGE, cursor });
    const page = await api.get(path);
    if (page.next === null) return { restarts: job2.restarts, complete, tail: page.items, tailCursor: cursor };
    complete.push(...page.items);
    cursor = page.next;
  }
}
function distinct(jobs2) {
  return [...new Map(jobs2.map((job2) => [job2.id, job2])).values()];
}

// src/views/parts/form.ts
function settingsForm(app, form) {
  const changed = app.draft(form.name, () => ({}));
  const isChanged = Object.keys(changed).length > 0;
  const isOff = app.state.pending.has(form.name) || app.state.connection === "lost";
  const submit2 = async (event) => {
    event.preventDefault();
    const asked = { ...changed };
    if (await app.act(form.name, form.stale, () => form.send(asked))) forget(app, form.name);
  };
  return h(
    "form",
    { class: "form settings", novalidate: true, "data-key": form.name, onsubmit: (event) => void submit2(event) },
    form.groups.map(
      (group) => h(
        "fieldset",
        { "data-key": group.title },
        h("legend", { class: form.groups.length === 1 ? "visually-hidden" : null }, group.title),
        h("div", { class: "fields" }, group.settings.map((setting) => field(app, form, setting, changed)))
      )
    ),
    form.more?.(changed) ?? null,
    outcome(app, form.name),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "submit", class: "primary", disabled: !isChanged || isOff }, "Save"),
      isChanged && h("button", { type: "reset", onclick: () => forget(app, form.name) }, "Discard")
    )
  );
}
function forget(app, name) {
  app.state.drafts.delete(name);
  app.state.results.delete(name);
  app.draw();
}
function field(app, form, setting, changed) {
  const { name, title, unit, kind } = setting;
  const fault = app.state.results.get(form.name)?.faults.find(({ pointer }) => pointer === `${form.pointer}/${name}`);
  const known = name in changed ? changed[name] : form.values[name];
  const take = (value) => {
    if (same(value, form.values[name])) delete changed[name];
    else changed[name] = value;
    app.draw();
  };
  return h(
    "label",
    { "data-key": name, class: kind === "flag" ? "check" : null },
    kind === "flag" && control(setting, known, take, false),
    h("span", {}, title, unit ? h("span", { class: "quiet" }, ` in ${unit}`) : null),
    kind !== "flag" && control(setting, known, take, fault !== void 0),
    fault !== void 0 && h("span", { class: "problem" }, fault.detail)
  );
}
function control({ name, kind, scale = 1, options = [], isOptional }, known, take, isWrong) {
  const read = (event) => event.currentTarget.value.trim();
  if (kind === "flag") {
    const flip = (event) => take(event.currentTarget.checked);
    return h("input", { name, type: "checkbox", checked: known === true, onchange: flip });
  }
  if (kind === "choice") {
    return h(
      "select",
      { name, onchange: (event) => take(read(event)) },
      options.map(([value2, words]) => h("option", { value: value2, selected: value2 === known }, words))
    );
  }
  if (kind === "list") {
    const split = (event) => take(read(event).split(",").map((part) => part.trim()).filter(Boolean));
    return h("input", { name, type: "text", value: Array.isArray(known) ? known.join(", ") : "", oninput: split });
  }
  const parse2 = (event) => {
    const text2 = read(event);
    take(text2 === "" ? null : scale === 1 ? Number(text2) : Math.round(Number(text2) * scale));
  };
  const value = typeof known === "number" ? Number((known / scale).toPrecision(6)) : "";
  const placeholder = isOptional ? "no limit" : null;
  return h("input", { name, type: "number", step: "any", value, placeholder, "aria-invalid": isWrong, oninput: parse2 });
}
function same(a, b) {
  return JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
}

// src/views/device/week.ts
var DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
var HOURS = Array.from({ length: 24 }, (_, hour) => hour);
function hoursOf(windows) {
  const grid2 = DAYS.map(() => HOURS.map(() => false));
  for (const { days, start, end } of windows) {
    const [first, last2] = [minutesOf(start), minutesOf(end)];
    const length = last2 > first ? last2 - first : last2 - first + 1440;
    for (const name of days) {
      const day = DAYS.indexOf(name);
      for (let at = Math.ceil(first / 60); at * 60 + 60 <= first + length; at += 1) {
        const row = grid2[(day + Math.floor(at / 24)) % 7];
        if (row) row[at % 24] = true;
      }
    }
  }
  return grid2;
}
function windowsOf(grid2) {
  const found = /* @__PURE__ */ new Map();
  grid2.forEach((row, day) => {
    for (let hour = 0; hour < 24; hour += 1) {
      if (!row[hour] || hour > 0 && row[hour - 1]) continue;
      let end = hour;
      while (end < 24 && row[end]) end += 1;
      const [start, until] = [clock2(hour), clock2(end)];
      const window2 = found.get(`${start}-${until}`) ?? { days: [], start, end: until };
      window2.days.push(DAYS[day] ?? "");
      found.set(`${start}-${until}`, window2);
    }
  });
  return [...found.values()];
}
function weekView(app, windows, change2) {
  const grid2 = hoursOf(windows);
  const flip = (day, hours) => {
    const isOn = hours.every((hour) => grid2[day]?.[hour]);
    const next = grid2.map((row, at) => at === day ? row.map((was, hour) => hours.includes(hour) ? !isOn : was) : row);
    change2(windowsOf(next));
  };
  return h(
    "div",
    { class: "week-frame" },
    h("p", { class: "quiet", role: "status" }, windows.length === 0 ? "Every hour is allowed. Press hours to allow only these." : said(windows)),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Week" },
      h(
        "table",
        { class: "week" },
        h("thead", {}, h("tr", {}, h("td", {}), HOURS.map((hour) => h("th", { scope: "col" }, hour % 3 === 0 ? String(hour) : "")))),
        h(
          "tbody",
          {},
          DAYS.map(
            (name, day) => h(
              "tr",
              { "data-key": name },
              h("th", { scope: "row" }, h("button", { type: "button", class: "plain", onclick: () => flip(day, HOURS) }, name)),
              HOURS.map(
                (hour) => h(
                  "td",
                  {},
                  h("button", {
                    type: "button",
                    class: grid2[day]?.[hour] ? "hour on" : "hour",
                    "aria-pressed": grid2[day]?.[hour] ? "true" : "false",
                    "aria-label": `${name} ${clock2(hour)}`,
                    disabled: app.state.connection === "lost",
                    onclick: () => flip(day, [hour])
                  })
                )
              )
            )
          )
        )
      )
    )
  );
}
function said(windows) {
  return windows.map(({ days, start, end }) => `${days.join(", ")} ${start} to ${end}`).join("; ");
}
function minutesOf(time) {
  const [hour = 0, minute = 0] = time.split(":").map(Number);
  return hour * 60 + minute;
}
function clock2(hour) {
  return `${String(hour).padStart(2, "0")}:00`;
}

// src/views/device/policy.ts
var MIB = 2 ** 20;
var level = (name, title, unit, scale = 1) => ({ name, title, unit, scale, kind: "number", isOptional: true });
var fixed = (name, title, unit) => ({ name, title, unit, kind: "number" });
var flag = (name, title) => ({ name, title, kind: "flag" });
var GROUPS = [
  {
    title: "Power",
    settings: [
      flag("require_ac_power", "Train on mains power alone"),
      flag("obey_battery_saver", "Stop while battery saver is on"),
      level("min_battery_percent", "Stop below a charge of", "%"),
      level("resume_battery_percent", "Resume at", "%")
    ]
  },
  {
    title: "People and other programs",
    settings: [
      flag("require_idle", "Train while nobody uses the device"),
      fixed("idle_minutes", "Idle after", "minutes without input"),
      level("max_foreign_cpu_percent", "Most load by other programs", "% of the machine"),
      { name: "blocking_processes", title: "Programs that come first", unit: "names, with commas between", kind: "list" }
    ]
  },
  {
    title: "Load",
    settings: [
      level("max_cpu_pressure_percent", "Most waiting for the processor", "% of the time"),
      level("max_memory_pressure_percent", "Most waiting for memory", "% of the time"),
      level("max_io_pressure_percent", "Most waiting for the disk", "% of the time"),
      fixed("grace_seconds", "Stop when too high for", "seconds"),
      fixed("settle_seconds", "Resume when good for", "seconds"),
      fixed("suspend_in_memory_seconds", "Suspend a job in memory for", "seconds")
    ]
  },
  {
    title: "Temperature, memory, disk",
    settings: [
      level("max_temperature_c", "Stop above", "°C"),
      level("resume_temperature_c", "Resume at", "°C"),
      level("min_free_memory_bytes", "Stop below free memory", "MiB", MIB),
      level("resume_free_memory_bytes", "Resume at", "MiB", MIB),
      level("min_free_disk_bytes", "Stop below free disk space", "MiB", MIB),
      level("resume_free_disk_bytes", "Resume at", "MiB", MIB)
    ]
  },
  {
    title: "What training may use",
    settings: [
      level("max_minutes_per_day", "Most minutes a day", "minutes"),
      fixed("max_threads_busy", "Threads while in use", "threads"),
      fixed("max_threads_idle", "Threads while idle", "threads"),
      { name: "nice", title: "Niceness, 0 to 19, the most polite", kind: "number" },
      level("memory_limit_bytes", "Most memory of children", "MiB", MIB)
    ]
  }
];
function policyView(app, rules) {
  return section(
    "Policy",
    { id: "policy" },
    settingsForm(app, {
      name: "policy",
      groups: GROUPS,
      values: rules,
      pointer: "",
      stale: ["/v1/policy", "/v1/device", "/v1/jobs"],
      more: (changed) => h("fieldset", { "data-key": "windows" }, h("legend", {}, "Hours of the week"), weekView(app, changed.windows ?? rules.windows, (windows) => {
        changed.windows = windows;
        app.draw();
      })),
      send: async (changed) => {
        await app.api.put("/v1/policy", changed);
        return "The policy is changed.";
      }
    })
  );
}

// src/views/device/device.ts
var STALE = ["/v1/device", "/v1/jobs"];
var SNOOZES = [
  { label: "Snooze 30 min", body: { minutes: 30 } },
  { label: "Snooze 2 h", body: { minutes: 120 } },
  { label: "Snooze until morning", body: { until: "morning" } }
];
function deviceView(app) {
  const [now, rules] = [device(app), policy(app)];
  if (!now || !rules) return [heading("Device"), loading()];
  return [
    heading("Device"),
    verdictView(app, now),
    section("Conditions", { id: "conditions" }, conditionsView(now, rules, { isShort: false })),
    policyView(app, rules)
  ];
}
function verdictView(app, now) {
  const asked = (path, method, body) => async () => {
    await (method === "post" ? app.api.post(path, body) : app.api.remove(path));
    return null;
  };
  return h(
    "section",
    { class: `verdict ${now.eligible ? "good" : "held"}`, "data-key": "verdict", "aria-label": "Verdict" },
    h("div", { class: "verdict-head" }, h("p", {}, h("strong", {}, verdict(now)), ` since ${clock(now.since)}`)),
    h(
      "div",
      { class: "buttons" },
      now.snoozed_until === null && !now.paused ? SNOOZES.map(
        ({ label: label2, body }) => press(app, { name: `snooze:${label2}`, label: label2, stale: STALE, run: asked("/v1/snooze", "post", body) })
      ) : null,
      now.snoozed_until === null ? null : press(app, { name: "unsnooze", label: "End the snooze", stale: STALE, run: asked("/v1/snooze", "remove") }),
      now.paused ? press(app, { name: "resume-all", label: "Resume all training", stale: STALE, run: asked("/v1/resume", "post") }) : press(app, { name: "pause-all", label: "Pause all training", stale: STALE, run: asked("/v1/pause", "post") })
    ),
    !now.eligible && blockers(now.blocked_by)
  );
}
function verdict(now) {
  if (now.eligible) return "The device can spare training now";
  if (now.paused) return "All training is paused by hand";
  if (now.snoozed_until !== null) return `Training is snoozed until ${clock(now.snoozed_until)}`;
  return "Training waits until the device can spare it";
}
function conditionsView(now, rules, { isShort }) {
  const shown2 = conditionsOf(now, rules).filter(({ limit: limit2, isBlocking }) => !isShort || limit2 !== null || isBlocking);
  return scrolled(
    "Conditions",
    h(
      "table",
      { class: "conditions" },
      h(
        "thead",
        {},
        h("tr", {}, ["Condition", "Now", "Limit", ...isShort ? [] : ["Source"]].map((title) => h("th", { scope: "col" }, title)))
      ),
      h("tbody", {}, shown2.map((each2) => conditionRow(each2, isShort)))
    )
  );
}
function conditionRow({ name, title, value, note: note2, limit: limit2, isBlocking, share }, isShort) {
  const state = limit2 === null ? "off" : isBlocking ? "blocks" : "holds";
  const said2 = { off: "not asked for", blocks: "blocks training", holds: "met" }[state];
  return h(
    "tr",
    { class: state, "data-key": name },
    h("th", { scope: "row" }, h("span", { class: `sign ${state}`, role: "img", "aria-label": said2 }), title),
    h(
      "td",
      { class: "number", title: note2 === "" ? null : note2 },
      value,
      share !== null && h("meter", { min: 0, max: 1, value: share, "aria-hidden": "true" })
    ),
    h("td", {}, limit2 ?? "–"),
    !isShort && h("td", { class: "quiet" }, note2)
  );
}

// src/page/scale.ts
function linear(from, to2) {
  const span = from.high - from.low || 1;
  return (value) => to2.low + (value - from.low) / span * (to2.high - to2.low);
}
function logarithmic(from, to2) {
  const map = linear({ low: Math.log10(from.low), high: Math.log10(from.high) }, to2);
  return (value) => map(Math.log10(value));
}
function powers(range) {
  const first = Math.ceil(Math.log10(range.low));
  const last2 = Math.floor(Math.log10(range.high));
  const stride = Math.ceil((last2 - first + 1) / 5);
  const found = [];
  for (let exponent = last2; exponent >= first; exponent -= stride) found.push(10 ** exponent);
  return found;
}
function ticks(range, wanted) {
  const rough = (range.high - range.low) / Math.max(1, wanted);
  if (!(rough > 0) || !Number.isFinite(rough)) return [range.low];
  const power2 = 10 ** Math.floor(Math.log10(rough));
  const step2 = ([1, 2, 5, 10].find((factor) => factor * power2 >= rough) ?? 10) * power2;
  const found = [];
  for (let each2 = Math.ceil(range.low / step2); each2 * step2 <= range.high; each2 += 1) {
    found.push(each2 * step2);
  }
  return found;
}
function thinned(dots, most) {
  const size = Math.ceil(dots.length / most);
  if (size <= 1) return dots;
  const means = [];
  for (let first = 0; first < dots.length; first += size) {
    const group = dots.slice(first, first + size);
    const value = group.reduce((sum, dot) => sum + dot.value, 0) / group.length;
    means.push({ step: group[group.length - 1]?.step ?? 0, value });
  }
  return means;
}
var MOST_SMOOTHED = 50;
function smoothed(dots) {
  const size = Math.ceil(dots.length / MOST_SMOOTHED);
  if (size <= 1) return dots;
  let sum = 0;
  return dots.map(({ step: step2, value }, at) => {
    sum += value - (at >= size ? dots[at - size]?.value ?? 0 : 0);
    return { step: step2, value: sum / Math.min(size, at + 1) };
  });
}
function latestMean(dots) {
  return smoothed(dots).at(-1)?.value ?? null;
}

// src/views/parts/frame.ts
var HEIGHT = 240;
var MARGIN = { top: 22, right: 16, bottom: 28, left: 52 };
var LOG_FROM = 50;
var EDGE = 30;
function frameOf(width, dots, name, most) {
  const steps = { low: 0, high: dots.reduce((most2, dot) => Math.max(most2, dot.step), 1) };
  const x = linear(steps, { low: MARGIN.left, high: width - MARGIN.right });
  return { width, x, steps, ...yAxis(dots.map((dot) => dot.value), name, most) };
}
function yAxis(values, name, most) {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most2, value) => Math.max(most2, value), -Infinity);
  const pixels = { low: HEIGHT - MARGIN.bottom, high: MARGIN.top };
  if (low > 0 && high / low > LOG_FROM) {
    const range2 = { low: low / 1.2, high: high * 1.2 };
    return { y: logarithmic(range2, pixels), yTicks: powers(range2), yName: `${name}, logarithmic` };
  }
  const range = yRange(low, high, most);
  return { y: linear(range, pixels), yTicks: ticks(range, 4), yName: name };
}
function yRange(low, high, most) {
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  const isFar = low < 0 || low > high * 0.6;
  return { low: isFar ? low - margin : 0, high: Math.min(high + margin, Math.max(most, high)) };
}
function grid({ width, x, y, steps, yTicks, yName }) {
  const bottom = HEIGHT - MARGIN.bottom;
  const right = width - MARGIN.right;
  return s(
    "g",
    { class: "grid" },
    yTicks.map((value) => [
      s("line", { x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }),
      s("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, decimal(value))
    ]),
    ticks(steps, Math.max(2, Math.floor((right - MARGIN.left) / 110))).filter(Number.isInteger).map((step2) => {
      const anchor = x(step2) > width - EDGE ? "end" : "middle";
      return s("text", { x: x(step2), y: bottom + 18, "text-anchor": anchor }, count(step2));
    }),
    s("text", { x: 0, y: 12 }, yName),
    s("text", { x: 0, y: bottom + 18 }, "step")
  );
}

// src/views/jobs/chart.ts
var NAMES = { train: "training", validation: "validation" };
var MOST_MARKERS = 60;
function chartView(app, chart) {
  const lines = [
    ...linesOf(chart, chart.points, null),
    ...chart.overlaid ? linesOf(chart, chart.overlaid.points, chart.overlaid.name) : []
  ];
  const drawn = lines.some(({ dots }) => dots.length > 1) ? lines : [];
  if (drawn.length === 0) return h("p", { class: "quiet" }, `The ${chart.title} curve begins after the first steps.`);
  const frame = frameOf(app.width, drawn.flatMap(({ dots }) => dots), chart.title, chart.title === "accuracy" ? 1 : Infinity);
  const step2 = app.state.hover?.chart === chart.id ? app.state.hover.step : null;
  return h("figure", { class: "curve" }, drawing(app, chart, drawn, frame, step2), legend(drawn, step2));
}
function seriesOf(points, key) {
  return points.flatMap(({ step: step2, values }) => {
    const value = values[key];
    return value !== void 0 && Number.isFinite(value) ? [{ step: step2, value }] : [];
  });
}
function linesOf({ keys }, points, other) {
  return Object.entries(keys).flatMap(([kind, key]) => {
    const raw = seriesOf(points, key);
    if (raw.length === 0) return [];
    const name = other === null ? NAMES[kind] : `${NAMES[kind]}, ${other}`;
    return [{ kind, name, isOther: other !== null, raw, dots: kind === "train" ? smoothed(raw) : raw }];
  });
}
function drawing(app, chart, lines, frame, step2) {
  const { width, x, steps } = frame;
  const hover = (at) => {
    app.state.hover = at === null ? null : { chart: chart.id, step: Math.min(steps.high, Math.max(0, at)) };
    app.draw();
  };
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const pixels = (event.clientX - box.left) / box.width * width;
    hover((pixels - MARGIN.left) / (x(steps.high) - MARGIN.left) * steps.high);
  };
  const key = (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move === void 0) return;
    event.preventDefault();
    hover((step2 ?? steps.high) + move * steps.high / 50);
  };
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${HEIGHT}`,
      width,
      height: HEIGHT,
      role: "img",
      tabindex: 0,
      "aria-label": summary(chart, lines),
      onpointermove: point,
      onpointerleave: () => hover(null),
      onkeydown: key,
      onblur: () => hover(null)
    },
    grid(frame),
    lines.map((line) => lineView(line, frame)),
    step2 !== null && s("line", { class: "cursor", x1: x(step2), x2: x(step2), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }),
    step2 !== null && lines.map((line) => {
      const dot = nearest(line.dots, step2);
      return s("circle", { class: `${line.kind} at`, cx: x(dot.step), cy: frame.y(dot.value), r: 3.5 });
    })
  );
}
function lineView({ kind, isOther, raw, dots }, { x, y, width }) {
  const most = Math.max(60, Math.floor(width / 2));
  const path = (list2) => thinned(list2, most).map(({ step: step2, value }) => `${x(step2).toFixed(1)},${within(y(value)).toFixed(1)}`).join(" ");
  return s(
    "g",
    { class: `${kind} ${isOther ? "other" : ""}` },
    raw !== dots && !isOther && s("polyline", { class: "raw", points: path(raw) }),
    s("polyline", { points: path(dots) }),
    kind === "validation" && !isOther && dots.length <= MOST_MARKERS && dots.map((dot) => s("circle", { cx: x(dot.step), cy: y(dot.value), r: 2.5 }))
  );
}
function within(pixels) {
  return Math.min(HEIGHT - MARGIN.bottom, Math.max(MARGIN.top - 8, pixels));
}
function legend(lines, step2) {
  return h(
    "figcaption",
    { class: "legend" },
    h("span", { class: "quiet number" }, step2 === null ? "at the end" : `step ${Math.round(step2)}`),
    lines.map(
      ({ kind, name, isOther, dots }) => h(
        "span",
        { class: `key ${kind} ${isOther ? "other" : ""}`, "data-key": name },
        `${name} `,
        h("strong", { class: "number" }, decimal(nearest(dots, step2 ?? Infinity).value))
      )
    )
  );
}
function nearest(dots, step2) {
  let found = dots[0] ?? { step: 0, value: NaN };
  for (const dot of dots) {
    if (dot.step > step2) break;
    found = dot;
  }
  return found;
}
function summary({ title }, lines) {
  const told3 = lines.map(({ name, dots }) => {
    const [first, last2] = [dots[0]?.value ?? 0, dots.at(-1)?.value ?? 0];
    return `${name} ${title} went from ${decimal(first)} to ${decimal(last2)}`;
  });
  return `${title.charAt(0).toUpperCase()}${title.slice(1)} curve: ${told3.join(", ")}.`;
}

// src/views/pinned.ts
function pinnedView(app) {
  const running = jobs(app)?.running ?? [];
  if (running.length === 0) return null;
  return h(
    "section",
    { class: "pinned", "data-key": "pinned", "aria-label": "Running job" },
    running.map(
      (job2) => h(
        "div",
        { class: "pinned-job", "data-key": `pinned-${job2.id}` },
        h(
          "p",
          { class: "pinned-name" },
          h("span", { class: "dot", "aria-hidden": "true" }),
          h("a", { href: to(["models", job2.model]) }, job2.model),
          " ",
          h("a", { class: "quiet", href: to(["jobs", job2.id]) }, `job ${job2.id}`)
        ),
        progressBar(job2),
        h("p", { class: "quiet" }, progressText(job2)),
        h("div", { class: "buttons" }, jobButtons(app, job2))
      )
    )
  );
}
function progressBar(job2) {
  const { step: step2, total_steps: total2 } = job2.progress;
  const value = total2 !== null ? step2 : job2.state === "running" ? null : 0;
  return h("progress", { max: total2 ?? 1, value, "aria-label": `Progress of job ${job2.id}` });
}
function progressText(job2) {
  const { step: step2, total_steps: total2, epoch, epochs, eta_seconds: eta } = job2.progress;
  if (step2 === 0 && total2 === null) return "no step yet";
  const steps = total2 === null ? `step ${count(step2)}` : `step ${count(step2)} of ${count(total2)}`;
  const turn = epochs === null ? `epoch ${count(epoch)}` : `epoch ${count(epoch)} of ${count(epochs)}`;
  const left = eta !== null && job2.state === "running" ? `, about ${duration(eta)} left` : "";
  return `${steps}, ${turn}${left}`;
}

// src/views/parts/spark.ts
var WIDTH = 96;
var HEIGHT2 = 22;
function sparkline(values, label2, marked = []) {
  if (values.length < 2) return h("span", { class: "quiet" }, "–");
  const range = { low: Math.min(...values), high: Math.max(...values) };
  const margin = (range.high - range.low || 1) * 0.15;
  const y = linear({ low: range.low - margin, high: range.high + margin }, { low: HEIGHT2, high: 0 });
  const x = linear({ low: 0, high: values.length - 1 }, { low: 3, high: WIDTH - 3 });
  const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  return s(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT2}`, width: WIDTH, height: HEIGHT2, role: "img", "aria-label": label2 },
    s("polyline", { points: points.join(" ") }),
    marked.length > 0 && values.map(
      (value, at) => s("circle", { class: marked[at] ? "on" : "off", cx: x(at), cy: y(value), r: 2 })
    )
  );
}

// src/views/models/models.ts
var COLUMNS = [
  { order: "name", title: "Name" },
  { order: "samples", title: "Samples" },
  { order: null, title: "Version" },
  { order: "metric", title: "Metric" },
  { order: null, title: "Course" },
  { order: "changed", title: "Changed" },
  { order: null, title: "" }
];
function modelsPage(app) {
  const all = models(app);
  if (all === void 0) return [heading("Models"), loading()];
  if (all === null || all.length === 0) return [heading("Models", addLink()), addModelHint()];
  const { query } = app.route;
  const search = (query.get("q") ?? "").toLowerCase();
  const found = all.filter(({ name }) => name.toLowerCase().includes(search));
  const isEmpty = ({ samples }) => Object.values(samples).every((each2) => each2 === 0);
  const rows = found.filter((model2) => !isEmpty(model2)).map((model2) => rowOf(app, model2));
  const order = query.get("sort") ?? "name";
  const isDown = query.has("down");
  rows.sort((a, b) => (isDown ? -1 : 1) * compared(a, b, order));
  const empty = found.filter(isEmpty);
  return [
    heading("Models", searchField(app, search), addLink()),
    h("p", { class: "visually-hidden", role: "status" }, `${found.length} models`),
    rows.length > 0 ? table(app, rows, order, isDown) : null,
    found.length === 0 ? h("p", { class: "quiet" }, `No model’s name contains “${search}”.`) : null,
    empty.length > 0 ? emptyView(empty, rows.length === 0) : null
  ];
}
function addModelHint() {
  return h(
    "section",
    { class: "card empty", "data-key": "empty", "aria-label": "No model yet" },
    h("p", {}, "No model yet. ", h("a", { href: to(["add"]) }, "Add one"), " by dropping a forward ONNX file, or by the terminal:"),
    h("pre", {}, h("code", {}, "honed models add base.onnx --name digits --loss cross_entropy")),
    h("p", { class: "quiet" }, "or POST /v1/models from any app; it shows here at once.")
  );
}
function addLink() {
  return h("a", { class: "button", href: to(["add"]), "data-key": "add" }, "Add a model");
}
function rowOf(app, model2) {
  const known = versions(app, model2.name) ?? void 0;
  const newest = known?.[0] ?? null;
  const metric = newest && measure(newest.metrics, newest.baseline, model2.gate.metric);
  return { model: model2, versions: known, newest, metric };
}
function compared(a, b, order) {
  const byName = a.model.name.localeCompare(b.model.name);
  if (order === "samples") return total(a.model) - total(b.model) || byName;
  if (order === "metric") return (a.metric?.after ?? -Infinity) - (b.metric?.after ?? -Infinity) || byName;
  if (order === "changed") return (a.newest?.created_at ?? "").localeCompare(b.newest?.created_at ?? "") || byName;
  return byName;
}
function total({ samples }) {
  return samples.train + samples.validation + samples.unlabelled + samples.base;
}
function searchField(app, search) {
  const { query } = app.route;
  return h("input", {
    type: "search",
    "aria-label": "Search models",
    placeholder: "Search",
    value: search,
    oninput: (event) => {
      const field2 = event.currentTarget;
      app.go(to(["models"], { q: field2.value, sort: query.get("sort"), down: query.get("down") }), { isSame: true });
    }
  });
}
function table(app, rows, order, isDown) {
  return h(
    "div",
    { class: "card", "data-key": "table" },
    scrolled(
      "Models",
      h(
        "table",
        { class: "models" },
        h("thead", {}, h("tr", {}, COLUMNS.map((column) => columnHead(app, column, order, isDown)))),
        h("tbody", {}, rows.map((row) => modelRow(app, row)))
      )
    )
  );
}
function columnHead(app, { order, title }, now, isDown) {
  if (order === null) return h("th", { scope: "col" }, title || h("span", { class: "visually-hidden" }, "Actions"));
  const isNow = order === now;
  const turn = () => app.go(to(["models"], { q: app.route.query.get("q"), sort: order, down: isNow && !isDown ? 1 : null }), { isSame: true });
  return h(
    "th",
    { scope: "col", "aria-sort": isNow ? isDown ? "descending" : "ascending" : null },
    h("button", { type: "button", class: "sort", onclick: turn }, title)
  );
}
function modelRow(app, { model: model2, versions: known, newest, metric }) {
  const { name, samples } = model2;
  return h(
    "tr",
    { "data-key": `model-${name}`, "aria-label": name },
    h("th", { scope: "row" }, h("a", { href: to(["models", name]) }, name)),
    h(
      "td",
      { class: "number" },
      h("a", { class: "plain", href: to(["models", name, "samples"]) }, count(total(model2))),
      samples.unlabelled > 0 && h("span", { class: "quiet" }, ` ${count(samples.unlabelled)} unlabelled`)
    ),
    h("td", {}, newest ? versionCell(model2, newest) : null),
    h("td", { class: "number" }, metric && h("span", { title: `validation ${metric.name}` }, shown(metric))),
    h("td", {}, courseOf(model2, known ?? [])),
    h("td", { class: "quiet" }, newest ? when(newest.created_at) : null),
    h("td", { class: "act" }, trainButton(app, name))
  );
}
function versionCell(model2, newest) {
  const isLatest = model2.latest_version === newest.version;
  if (newest.job_id === null) return [`${newest.version}`];
  if (isLatest) return [`${newest.version} `, badge("latest", "latest")];
  return [`${newest.version} `, badge("held", "not promoted"), h("span", { class: "quiet" }, ` latest ${model2.latest_version ?? "–"}`)];
}
function shown({ isShare, after }) {
  return isShare ? percent(after) : decimal(after);
}
function courseOf(model2, known) {
  const judged = known.map((version) => ({ version, metric: measure(version.metrics, version.baseline, model2.gate.metric) })).filter(({ metric }) => metric !== null).reverse();
  const values = judged.map(({ metric }) => metric?.after ?? 0);
  const [name] = judged.map(({ metric }) => metric?.name);
  const label2 = `${name ?? "metric"} from ${decimal(values[0] ?? 0)} to ${decimal(values.at(-1) ?? 0)}`;
  return sparkline(values, label2, judged.map(({ version }) => version.promoted));
}
function trainButton(app, name) {
  return press(app, {
    name: `train:${name}`,
    label: "Train",
    about: name,
    stale: ["/v1/jobs", "/v1/device"],
    run: async () => {
      const job2 = await app.api.post(modelPath(name, "/jobs"), {});
      return { text: `Job ${job2.id} was queued.`, link: to(["jobs", job2.id]) };
    }
  });
}
function emptyView(empty, isOpen) {
  return h(
    "details",
    { class: "card", "data-key": "without", open: isOpen },
    h("summary", {}, `Without samples (${empty.length})`),
    h(
      "ul",
      { class: "names" },
      empty.map(({ name }) => h("li", { "data-key": name }, h("a", { href: to(["models", name]) }, name)))
    )
  );
}

// src/views/overview.ts
var OUTCOMES_SHOWN = 8;
function overviewPage(app) {
  const [now, rules, queue, all] = [device(app), policy(app), jobs(app), models(app)];
  if (queue === void 0 || all === void 0) return [heading("Overview"), loading()];
  return [
    heading("Overview"),
    now ? verdictView(app, now) : null,
    h(
      "div",
      { class: "columns", "data-key": "columns" },
      h(
        "div",
        { class: "stack" },
        waitingView(app, queue),
        all?.length === 0 ? addModelHint() : outcomesView(queue)
      ),
      h(
        "div",
        { class: "stack" },
        now && rules ? section("Conditions", { id: "conditions" }, conditionsView(now, rules, { isShort: true })) : null,
        storageView(app, all ?? [])
      )
    )
  ];
}
function waitingView(app, { waiting }) {
  return section(
    "Waiting",
    { id: "waiting" },
    waiting.length === 0 ? h("p", { class: "quiet" }, "No job waits.") : h("ul", { class: "rows" }, waiting.map((job2) => waitingRow(app, job2)))
  );
}
function waitingRow(app, job2) {
  return h(
    "li",
    { "data-key": `job-${job2.id}` },
    h("div", { class: "row-head" }, jobLink(job2), badge(job2.state), h("div", { class: "buttons" }, jobButtons(app, job2))),
    job2.blocked_by.length > 0 ? blockers(job2.blocked_by) : h("p", { class: "quiet" }, "Its turn comes next.")
  );
}
function jobLink(job2) {
  return h("p", {}, h("a", { href: to(["jobs", job2.id]) }, h("strong", {}, job2.model), ` job ${job2.id}`));
}
function outcomesView({ ended }) {
  const shown2 = ended.filter(isOver).slice(0, OUTCOMES_SHOWN);
  return section(
    "Last jobs",
    { id: "last-jobs" },
    shown2.length === 0 ? h("p", { class: "quiet" }, "No job has ended yet.") : h("ul", { class: "rows" }, shown2.map(outcomeRow))
  );
}
function outcomeRow(job2) {
  return h(
    "li",
    { "data-key": `job-${job2.id}` },
    h(
      "div",
      { class: "row-head" },
      jobLink(job2),
      verdictBadge(job2),
      h("p", { class: "quiet" }, job2.finished_at === null ? null : when(job2.finished_at))
    ),
    h("p", { class: job2.error ? "problem short" : "quiet short", title: job2.metrics.reason }, job2.error?.detail ?? job2.metrics.reason)
  );
}
function verdictBadge(job2) {
  if (job2.version === null || job2.metrics.promoted === null) return badge(job2.state);
  const made = `version ${job2.version}`;
  return job2.metrics.promoted ? badge("promoted", `${made} promoted`) : badge("held", `${made} not promoted`);
}
function storageView(app, all) {
  const full = all.filter(({ samples }) => samples.train + samples.validation + samples.unlabelled + samples.base > 0);
  const sizes = full.map((model2) => ({ model: model2, size: stats(app, model2.name)?.size_bytes ?? 0 })).sort((a, b) => b.size - a.size).slice(0, 6);
  const largest = Math.max(1, ...sizes.map(({ size }) => size));
  return section(
    "Samples",
    { id: "storage" },
    sizes.length === 0 ? h("p", { class: "quiet" }, "No samples are stored.") : h("ul", { class: "bars" }, sizes.map(({ model: model2, size }) => storageRow(model2, size, largest))),
    full.length > sizes.length && h("p", { class: "quiet" }, `and ${plural(full.length - sizes.length, "more model")}`)
  );
}
function storageRow({ name, samples, quota }, size, largest) {
  const total2 = samples.train + samples.validation + samples.unlabelled + samples.base;
  const limit2 = quota.max_bytes;
  return h(
    "li",
    { "data-key": name },
    h("a", { href: to(["models", name]) }, name),
    h("span", { class: "quiet number" }, `${count(total2)} · ${bytes(size)}${limit2 === null ? "" : ` of ${bytes(limit2)}`}`),
    h("meter", { min: 0, max: limit2 ?? largest, value: size, "aria-label": `Bytes of ${name}` })
  );
}

// src/views/jobs/job.ts
function jobPage(app, id) {
  const known = Number.isInteger(id) && id > 0 ? job(app, id) : null;
  if (known === void 0) return [heading(`Job ${id}`), loading()];
  if (known === null) {
    return [heading("There is no such job"), h("p", {}, h("a", { href: to(["jobs"]) }, "All jobs"))];
  }
  const points = curve(app, known) ?? [];
  return [
    head(app, known),
    known.state === "paused" ? progressView(known) : null,
    known.blocked_by.length > 0 ? blockers(known.blocked_by) : null,
    known.error !== null ? h("p", { class: "notice bad", "data-key": "error" }, known.error.detail) : null,
    known.metrics.reason !== null ? h("p", { class: "reason" }, known.metrics.reason) : null,
    known.metrics.warnings.map((warning) => h("p", { class: "notice held", "data-key": warning }, warning)),
    h("dl", { class: "facts" }, facts(known, points)),
    curvesView(app, known, points),
    h("div", { class: "columns", "data-key": "columns" }, choicesView(known), settingsView(known))
  ];
}
function head(app, known) {
  return h(
    "div",
    { class: "heading", "data-key": "heading" },
    h("h1", { tabindex: -1 }, `Job ${known.id}`),
    h("a", { href: to(["models", known.model]) }, known.model),
    isOver(known) ? verdictBadge(known) : badge(known.state),
    h("p", { class: "quiet" }, beginning(known)),
    // The running job and its buttons are pinned above every page.
    isOver(known) || known.state === "running" ? null : h("div", { class: "buttons" }, jobButtons(app, known))
  );
}
function beginning(known) {
  const by = known.trigger === "request" ? "asked for" : `by ${known.trigger},`;
  const parts = [`${by} `, when(known.created_at)];
  if (known.ignore_policy) parts.push(", in spite of the policy");
  if (known.finished_at !== null) parts.push(", ended ", when(known.finished_at));
  return parts;
}
function progressView(known) {
  return h("div", { class: "progress", "data-key": "progress" }, progressBar(known), h("p", { class: "quiet" }, progressText(known)));
}
function facts(known, points) {
  const { samples_per_second: speed } = known.progress;
  const train = isOver(known) ? known.metrics.train_loss : latestMean(seriesOf(points, "train_loss"));
  const loss = last(points, "validation_loss");
  const accuracy = last(points, "validation_accuracy");
  return [
    train !== null && fact(isOver(known) ? "training loss, last epoch" : "training loss, running mean", decimal(train)),
    loss !== null && fact("validation loss", decimal(loss)),
    accuracy !== null && fact("validation accuracy", percent(accuracy)),
    speed !== null && speed > 0 && fact("samples a second", count(speed)),
    known.version !== null && fact("made", h("a", { href: to(["models", known.model]) }, `version ${known.version}`)),
    known.restarts > 0 && fact("restarts", count(known.restarts)),
    known.engine !== null && fact("engine", known.engine)
  ];
}
function last(points, key) {
  for (let index = points.length - 1; index >= 0; index -= 1) {
    const value = points[index]?.values[key];
    if (value !== void 0) return value;
  }
  return null;
}
function curvesView(app, known, points) {
  const otherId = Number(app.route.query.get("with"));
  const other = otherId > 0 ? job(app, otherId) : null;
  const others2 = other ? curve(app, other) ?? [] : [];
  const metric = ["validation_accuracy", "validation_mae"].find((key) => last(points, key) !== null);
  const overlaid = other ? { name: `job ${other.id}`, points: others2 } : null;
  return h(
    "div",
    { class: "charts", "data-key": "charts" },
    section(
      "Loss",
      { id: "loss" },
      chartView(app, { id: `loss-${known.id}`, title: "loss", keys: { train: "train_loss", validation: "validation_loss" }, points, overlaid })
    ),
    metric === void 0 ? null : section(
      metric === "validation_accuracy" ? "Accuracy" : "Mean absolute error",
      { id: "metric" },
      chartView(app, { id: `metric-${known.id}`, title: metric.slice("validation_".length), keys: { validation: metric }, points, overlaid })
    ),
    overlayField(app, known)
  );
}
function overlayField(app, known) {
  const others2 = (jobs(app)?.ended ?? []).filter(({ model: model2, id }) => model2 === known.model && id !== known.id);
  if (others2.length === 0) return null;
  const now = app.route.query.get("with") ?? "";
  const choose = (event) => app.go(to(["jobs", known.id], { with: event.currentTarget.value }), { isSame: true });
  return h(
    "label",
    { class: "inline", "data-key": "overlay" },
    h("span", {}, "Compare with"),
    h(
      "select",
      { onchange: choose },
      h("option", { value: "", selected: now === "" }, "no other job"),
      others2.map(({ id }) => h("option", { value: id, selected: String(id) === now }, `job ${id}`))
    )
  );
}
function choicesView({ choices }) {
  const chosen3 = Object.entries(choices);
  if (chosen3.length === 0) return null;
  return section(
    "What the job chose",
    { id: "choices" },
    h("dl", { class: "pairs" }, chosen3.map(([name, reason]) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, reason))))
  );
}
function settingsView({ hyperparameters }) {
  const set = Object.entries(hyperparameters).filter(([, value]) => value !== null);
  return section(
    "Hyperparameters",
    { id: "hyperparameters" },
    h(
      "dl",
      { class: "pairs" },
      set.map(
        ([name, value]) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value)))
      )
    )
  );
}

// src/views/jobs/jobs.ts
function jobsPage(app) {
  const queue = jobs(app);
  const title = heading("Jobs", filterField(app));
  if (queue === void 0) return [heading("Jobs"), loading()];
  const wanted = app.route.query.get("model") ?? "";
  const chosen3 = (list2) => list2.filter(({ model: model2 }) => model2.includes(wanted));
  const [running, waiting, ended] = [queue.running, queue.waiting, queue.ended].map(chosen3);
  return [
    title,
    running && running.length > 0 ? section("Running", { id: "running" }, h("ul", { class: "rows" }, running.map((job2) => runningRow(app, job2)))) : null,
    waiting && waiting.length > 0 ? section("Waiting", { id: "waiting" }, h("ul", { class: "rows" }, waiting.map((job2) => waitingRow(app, job2)))) : null,
    ended && ended.length > 0 ? section("Ended", { id: "ended" }, endedTable(ended)) : null,
    [running, waiting, ended].every((list2) => list2?.length === 0) ? h("p", { class: "quiet" }, "No jobs.") : null
  ];
}
function filterField(app) {
  return h("input", {
    type: "search",
    "aria-label": "Jobs of this model",
    placeholder: "Model",
    value: app.route.query.get("model"),
    oninput: (event) => {
      app.go(to(["jobs"], { model: event.currentTarget.value }), { isSame: true });
    }
  });
}
function runningRow(app, job2) {
  return h(
    "li",
    { "data-key": `job-${job2.id}` },
    h("div", { class: "row-head" }, jobLink(job2), badge(job2.state), h("div", { class: "buttons" }, jobButtons(app, job2))),
    h("p", { class: "quiet" }, progressText(job2))
  );
}
function endedTable(ended) {
  const columns = ["Job", "Model", "Result", "Reason", "Took", "Ended"];
  return scrolled(
    "Ended jobs",
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, columns.map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, ended.map(endedRow))
    )
  );
}
function endedRow(job2) {
  const { id, model: model2, started_at: started, finished_at: finished, error, metrics } = job2;
  const seconds = started && finished ? (Date.parse(finished) - Date.parse(started)) / 1e3 : null;
  return h(
    "tr",
    { "data-key": `job-${id}` },
    h("th", { scope: "row" }, h("a", { href: to(["jobs", id]) }, `job ${id}`)),
    h("td", {}, h("a", { href: to(["models", model2]) }, model2)),
    h("td", {}, verdictBadge(job2)),
    h("td", { class: error ? "problem reason" : "quiet reason" }, error?.detail ?? metrics.reason),
    h("td", { class: "number" }, seconds === null ? "–" : duration(seconds)),
    h("td", { class: "quiet" }, finished === null ? null : when(finished))
  );
}

// src/daemon/npz.ts
var END = 101010256;
var ENTRY = 33639248;
var KINDS = {
  "<f4": { size: 4, read: (view, at) => view.getFloat32(at, true) },
  "<f8": { size: 8, read: (view, at) => view.getFloat64(at, true) },
  "<i8": { size: 8, read: (view, at) => Number(view.getBigInt64(at, true)) },
  "<i4": { size: 4, read: (view, at) => view.getInt32(at, true) },
  "<i2": { size: 2, read: (view, at) => view.getInt16(at, true) },
  "|i1": { size: 1, read: (view, at) => view.getInt8(at) },
  "|u1": { size: 1, read: (view, at) => view.getUint8(at) },
  "|b1": { size: 1, read: (view, at) => view.getUint8(at) }
};
async function readNpz(file) {
  const view = new DataView(await file.arrayBuffer());
  const found = /* @__PURE__ */ new Map();
  for (const { name, method, start, size } of entries(view)) {
    const packed = new Uint8Array(view.buffer, start, size);
    const content2 = method === 0 ? packed.slice() : await inflated(packed);
    const tensor = readNpy(new DataView(content2.buffer));
    if (tensor !== null) found.set(name.replace(/\.npy$/, ""), tensor);
  }
  return found;
}
function entries(view) {
  let end = view.byteLength - 22;
  while (end > 0 && view.getUint32(end, true) !== END) end -= 1;
  const found = [];
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0 && view.getUint32(at, true) === ENTRY; left -= 1) {
    const nameLength = view.getUint16(at + 28, true);
    const local = view.getUint32(at + 42, true);
    const name = new TextDecoder().decode(new Uint8Array(view.buffer, at + 46, nameLength));
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    found.push({ name, method: view.getUint16(at + 10, true), start, size: view.getUint32(at + 20, true) });
    at += 46 + nameLength + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return found;
}
async function inflated(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
function readNpy(view) {
  const isFirst = view.getUint8(6) === 1;
  const length = isFirst ? view.getUint16(8, true) : view.getUint32(8, true);
  const begin2 = isFirst ? 10 : 12;
  const header = new TextDecoder().decode(new Uint8Array(view.buffer, begin2, length));
  const kind = KINDS[/'descr': '([^']+)'/.exec(header)?.[1] ?? ""];
  if (kind === void 0) return null;
  const shape = (/'shape': \(([^)]*)\)/.exec(header)?.[1] ?? "").split(",").filter((part) => part.trim() !== "");
  const count2 = shape.reduce((product, part) => product * Number(part), 1);
  const values = Array.from({ length: count2 }, (_, index) => kind.read(view, begin2 + length + index * kind.size));
  return { shape: shape.map(Number), values };
}

// src/app/samples.ts
var SHOWN = {
  all: { title: "All", query: {} },
  unlabelled: { title: "Unlabelled", query: { unlabelled: "true" } },
  uncertain: { title: "Most uncertain first", query: { unlabelled: "true", order: "uncertainty" } },
  suspect: { title: "Labels that may be wrong", query: { suspect: "true" } },
  quarantined: { title: "Set aside", query: { quarantined: "true" } },
  duplicates: { title: "Duplicates", query: {} }
};
var PAGE = 1e3;
var AT_ONCE = 4;
var SMALL_PICTURE_BYTES = 2 ** 20;
var PICTURE_PIXELS = 256;
function workOf(app, name) {
  const begin2 = () => ({ active: null, selected: /* @__PURE__ */ new Set(), undo: [], last: Promise.resolve(), pages: 1 });
  return app.draft(`samples:${name}`, begin2);
}
function showOf(app) {
  const asked = app.route.query.get("show") ?? "all";
  return asked in SHOWN ? asked : "all";
}
function listPath(app, name) {
  const show = showOf(app);
  if (show === "duplicates") return modelPath(name, "/samples/duplicates");
  const { query } = app.route;
  const canFilter = show !== "suspect" && show !== "uncertain";
  const filter = canFilter ? { label: query.get("label"), split: query.get("split") } : {};
  return withQuery(modelPath(name, "/samples"), { ...SHOWN[show].query, ...filter });
}
function list(app, name) {
  const path = listPath(app, name);
  const work = workOf(app, name);
  return app.resources.read(path, (api) => loadList(api, path, work.pages));
}
async function loadList(api, path, pages) {
  const items = [];
  let next = null;
  for (let page = 0; page < pages; page += 1) {
    const answer = await api.get(withQuery(path, { limit: PAGE, cursor: next }));
    items.push(...answer.items.flatMap((each2) => "ids" in each2 ? each2.ids.map(unread) : [each2]));
    next = answer.next;
    if (next === null) break;
  }
  return { items, next };
}
function unread(id) {
  const nothing = { key: null, split: "", label: void 0, size_bytes: 0, created_at: "" };
  return { id, ...nothing, pinned: false, weight: 1, quarantine: null };
}
function loadMore(app, name, listed) {
  const work = workOf(app, name);
  if (listed.next === null || listed.items.length < work.pages * PAGE) return;
  work.pages += 1;
  app.resources.mark([listPath(app, name)]);
}
function takesImages({ preprocess }) {
  return preprocess.some(({ kind }) => kind === "image");
}
function picture(app, name, { id, size_bytes: size }) {
  const isSmall = size > 0 && size <= SMALL_PICTURE_BYTES;
  const path = modelPath(name, `/samples/${id}/${isSmall ? "content" : `thumbnail?size=${PICTURE_PIXELS}`}`);
  const load = async (api, _, signal) => {
    const whole2 = await createImageBitmap(await api.bytes(path, signal)).catch(broken);
    if (whole2 === null || whole2.height <= PICTURE_PIXELS) return whole2;
    return await createImageBitmap(whole2, { resizeHeight: PICTURE_PIXELS, resizeQuality: "medium" });
  };
  return app.resources.read(path, load, true);
}
function broken(error) {
  if (error instanceof DOMException && error.name === "InvalidStateError") return null;
  throw error;
}
function content(app, name, id) {
  const path = modelPath(name, `/samples/${id}/content`);
  const load = async (api, _, signal) => await readNpz(await api.bytes(path, signal));
  return app.resources.read(path, load, true);
}
async function label(app, model2, ids, value) {
  const work = workOf(app, model2.name);
  const known = app.resources.peek(listPath(app, model2.name));
  const before = ids.map((id) => ({ id, label: known?.items.find((each2) => each2.id === id)?.label ?? null }));
  const changes = ids.map((id) => ({ id, label: value }));
  if (await inTurn(work, () => relabel(app, model2, changes))) work.undo.push(before);
}
async function inTurn(work, run) {
  const turn = work.last.then(run, run);
  work.last = turn;
  return await turn;
}
async function undo(app, model2) {
  const work = workOf(app, model2.name);
  await inTurn(work, async () => {
    const step2 = work.undo.pop();
    if (step2 !== void 0) await relabel(app, model2, step2);
  });
}
async function relabel(app, model2, changes) {
  const path = listPath(app, model2.name);
  const stale = ["/v1/models?", modelPath(model2.name, "/samples/stats")];
  return await app.act(`label:${model2.name}`, stale, async () => {
    await each(changes, async ({ id, label: value }) => {
      const changed = await app.api.patch(modelPath(model2.name, `/samples/${id}`), { label: value });
      app.resources.update(path, ({ items }) => {
        const listed = items.find((sample) => sample.id === id);
        if (listed) Object.assign(listed, { label: changed.label, split: changed.split });
      });
    });
    return changes.length > 1 ? `${changes.length} samples were labelled.` : null;
  });
}
async function remove(app, model2, ids, retrain) {
  const work = workOf(app, model2.name);
  return await app.act(`delete:${model2.name}`, ["/v1/models?", modelPath(model2.name), "/v1/jobs"], async () => {
    await each(ids, async (id) => {
      await app.api.remove(withQuery(modelPath(model2.name, `/samples/${id}`), { retrain: retrain ? "true" : null }));
      work.selected.delete(id);
    });
    work.active = null;
    work.undo = [];
    return ids.length === 1 ? "The sample was deleted." : `${ids.length} samples were deleted.`;
  });
}
async function each(items, run) {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item !== void 0; item = left.shift()) await run(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
function filterTo(app, name, change2) {
  const now = Object.fromEntries(["show", "label", "split"].map((key) => [key, app.route.query.get(key)]));
  Object.assign(workOf(app, name), { pages: 1, active: null, selected: /* @__PURE__ */ new Set() });
  app.go(to(["models", name, "samples"], { ...now, ...change2 }), { isSame: true });
}

// src/app/uploads.ts
var FORM_FILES = 20;
var MOST_FAULTS = 20;
var PICTURE = /\.(png|jpe?g|webp)$/i;
var TABLES = {
  npz: "application/x-npz",
  csv: "text/csv",
  json: "application/json"
};
function uploadOf(app, name) {
  return app.draft(`upload:${name}`, () => ({
    label: "folder",
    total: 0,
    sent: 0,
    accepted: 0,
    duplicates: 0,
    faults: [],
    stop: null
  }));
}
async function dropped(transfer) {
  const items = [...transfer.items].map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const found = items.map(async ({ entry, file }) => {
    if (entry !== null) return await filesOf(entry, "");
    return file === null ? [] : [{ file, folder: "" }];
  });
  return (await Promise.all(found)).flat();
}
function chosen(files) {
  return [...files].map((file) => ({ file, folder: file.webkitRelativePath.split("/").at(-2) ?? "" }));
}
async function filesOf(entry, folder) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ file, folder }];
  }
  const reader = entry.createReader();
  const found = [];
  for (; ; ) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found;
    found.push(...(await Promise.all(some.map((each2) => filesOf(each2, entry.name)))).flat());
  }
}
async function send(app, model2, files) {
  const upload = uploadOf(app, model2.name);
  if (upload.stop !== null || files.length === 0) return;
  const stop = new AbortController();
  const fits = files.filter(({ file }) => takesImages(model2) ? PICTURE.test(file.name) : kindOf(file) !== null);
  const faults2 = files.length === fits.length ? [] : [unfit(model2, files.length - fits.length)];
  Object.assign(upload, { total: fits.length, sent: 0, accepted: 0, duplicates: 0, faults: faults2, stop });
  app.draw();
  try {
    const size = takesImages(model2) ? FORM_FILES : 1;
    for (let first = 0; first < fits.length && !stop.signal.aborted; first += size) {
      await sendSome(app, model2, upload, fits.slice(first, first + size));
    }
    app.toast(told2(upload));
  } finally {
    upload.stop = null;
    await app.resources.refresh(["/v1/models?", modelPath(model2.name)]);
    app.draw();
  }
}
async function sendSome(app, model2, upload, files) {
  const path = withQuery(modelPath(model2.name, "/samples"), { on_error: "skip" });
  try {
    const answer = await app.api.upload(path, bodyOf(model2, upload, files), upload.stop?.signal);
    upload.accepted += answer.accepted;
    upload.duplicates += answer.duplicates;
    note(upload, answer.errors.map(({ pointer, detail: detail2 }) => `${nameAt(files, pointer)}: ${detail2}`));
  } catch (error) {
    if (upload.stop?.signal.aborted) return;
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    const faults2 = error instanceof Refused ? error.faults.map(({ pointer, detail: detail2 }) => `${nameAt(files, pointer)}: ${detail2}`) : [];
    note(upload, faults2.length > 0 ? faults2 : [`${files[0]?.file.name ?? ""}: ${error.message}`]);
  }
  upload.sent += files.length;
  app.draw();
}
function bodyOf(model2, upload, files) {
  if (!takesImages(model2)) {
    const [{ file } = { file: new Blob() }] = files;
    return new Blob([file], { type: TABLES[kindOf(file) ?? ""] ?? "" });
  }
  const form = new FormData();
  for (const { file } of files) form.append("file", file, file.name);
  const about = files.map(({ folder }) => ({ label: labelOf(model2, upload, folder) }));
  form.append("samples", JSON.stringify(about));
  return form;
}
function labelOf({ target }, { label: label2 }, folder) {
  const wanted = label2 === "folder" ? folder : label2;
  return target.classes?.find((name) => name === wanted) ?? null;
}
function kindOf(file) {
  const ending = /\.(\w+)$/.exec(file.name)?.[1]?.toLowerCase() ?? "";
  return ending in TABLES ? ending : null;
}
function unfit(model2, count2) {
  const takes = takesImages(model2) ? "PNG, JPEG and WebP pictures" : ".npz, .csv and .json files";
  return `${plural(count2, "file")} left out: this model takes ${takes}`;
}
function nameAt(files, pointer) {
  const at = /^\/(?:files?|samples)\/(\d+)/.exec(pointer)?.[1];
  return files[Number(at)]?.file.name ?? (files.length === 1 ? `${files[0]?.file.name ?? ""}${pointer}` : pointer);
}
function note(upload, faults2) {
  upload.faults = [...upload.faults, ...faults2].slice(0, MOST_FAULTS);
}
function told2({ accepted, duplicates, faults: faults2 }) {
  const same2 = duplicates > 0 ? `, ${plural(duplicates, "duplicate")}` : "";
  return `${plural(accepted, "sample")} added${same2}${faults2.length > 0 ? `, ${plural(faults2.length, "problem")}` : ""}.`;
}

// src/views/samples/deletion.ts
function chosen2(app, model2) {
  const { selected, active } = workOf(app, model2.name);
  if (selected.size > 0) return [...selected];
  return active === null ? [] : [active];
}
function askDelete(app, model2) {
  const ids = chosen2(app, model2);
  const name = `delete:${model2.name}`;
  if (ids.length === 0) return;
  const press3 = async (event) => {
    event.preventDefault();
    const retrain = new FormData(event.currentTarget).has("retrain");
    if (await remove(app, model2, ids, retrain)) app.close();
  };
  app.open(
    () => h(
      "form",
      { class: "question", "data-key": name, onsubmit: (event) => void press3(event) },
      h("h2", { id: "dialog-title" }, `Delete ${plural(ids.length, "sample")}?`),
      h("p", {}, "Their bytes are overwritten. Versions that were trained on them stay, and remember what they learned."),
      ids.length === 1 && h(
        "label",
        { class: "check" },
        h("input", { type: "checkbox", name: "retrain" }),
        "Train again without it, then delete the versions that saw it"
      ),
      outcome(app, name),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => app.close() }, "Keep"),
        h("button", { type: "submit", class: "danger", disabled: app.state.pending.has(name) }, "Delete")
      )
    )
  );
}

// src/views/samples/grid.ts
var PICTURE2 = { width: 128, height: 148, gap: 8 };
var VALUES = { width: Infinity, height: 44, gap: 0 };
var MOST_SHOWN = 200;
var ROWS_BEYOND = 2;
var ROWS_AHEAD = 10;
var VALUES_SHOWN = 6;
var SERIES_FROM = 12;
var PIXELS_TO = 64;
var CLASS_KEYS = "1234567890";
function gridView(app, model2, listed) {
  const isImage = takesImages(model2);
  const { items } = listed;
  const { columns, rows, height, first, last: last2 } = windowOf(items.length, isImage ? PICTURE2 : VALUES);
  if (last2 > rows - ROWS_AHEAD) loadMore(app, model2.name, listed);
  const shown2 = items.slice(first * columns, last2 * columns);
  return h(
    "div",
    {
      id: "grid",
      class: "samples",
      role: "listbox",
      "aria-label": "Samples",
      "aria-multiselectable": "true",
      tabindex: 0,
      "aria-activedescendant": activeOf(app, model2, shown2),
      "data-key": "grid",
      onkeydown: (event) => press2(app, model2, items, columns, event)
    },
    spacer(first * height, "above"),
    h(
      "div",
      { class: isImage ? "grid pictures" : "grid values", role: "presentation", "data-key": "cells" },
      shown2.map((sample) => cell(app, model2, sample, isImage))
    ),
    spacer((rows - last2) * height, "below")
  );
}
function windowOf(count2, { width, height, gap }) {
  const grid2 = document.getElementById("grid");
  const room = grid2?.clientWidth ?? document.getElementById("main")?.clientWidth ?? 800;
  const columns = Math.max(1, Math.floor((room + gap) / width));
  const rows = Math.ceil(count2 / columns);
  const top = grid2?.getBoundingClientRect().top ?? 0;
  const before = Math.max(0, Math.floor(-top / height) - ROWS_BEYOND);
  const first = Math.min(before, Math.max(0, rows - 1));
  const seen = Math.ceil(window.innerHeight / height) + 2 * ROWS_BEYOND;
  const most = Math.max(1, Math.floor(MOST_SHOWN / columns));
  return { columns, rows, height, first, last: Math.min(rows, first + Math.min(seen, most)) };
}
function spacer(height, key) {
  return s("svg", { class: "spacer", width: 1, height, "aria-hidden": "true", "data-key": key });
}
function activeOf(app, model2, shown2) {
  const { active } = workOf(app, model2.name);
  return shown2.some(({ id }) => id === active) ? `sample-${active}` : null;
}
function cell(app, model2, sample, isImage) {
  const work = workOf(app, model2.name);
  const { id } = sample;
  const isSelected = work.selected.has(id);
  const choose = (event) => {
    if (event.shiftKey || event.ctrlKey || event.metaKey) toggle(work.selected, id);
    work.active = id;
    document.getElementById("grid")?.focus({ preventScroll: true });
    app.draw();
  };
  return h(
    "div",
    {
      id: `sample-${id}`,
      class: `cell ${work.active === id ? "active" : ""} ${sample.quarantine ? "aside" : ""}`,
      role: "option",
      "aria-selected": isSelected ? "true" : "false",
      "aria-label": `Sample ${id}, ${labelText(model2, sample)}`,
      "data-key": `sample-${id}`,
      title: sample.quarantine,
      onclick: choose
    },
    isImage ? pictureView(app, model2, sample) : valuesView(app, model2, id),
    h("span", { class: "caption" }, h("span", { class: "label" }, labelText(model2, sample)), h("span", { class: "quiet number" }, detail(model2, sample)))
  );
}
function labelText({ target }, { label: value, split }) {
  if (value === void 0) return "–";
  if (value === null) return "no label";
  const text2 = typeof value === "number" ? target.classes?.[value] ?? String(value) : JSON.stringify(value, short);
  return split === "validation" ? `${text2} ·v` : text2;
}
function short(_, value) {
  return typeof value === "number" ? Number(value.toPrecision(4)) : value;
}
function detail({ target }, { id, doubt, predicted, uncertainty, quarantine }) {
  if (quarantine) return "set aside";
  if (typeof doubt === "number") {
    return `${target.classes?.[Number(predicted)] ?? String(predicted)}? ${percent(doubt)}`;
  }
  return typeof uncertainty === "number" ? decimal(uncertainty) : `${id}`;
}
var painted = /* @__PURE__ */ new WeakMap();
function pictureView(app, model2, sample) {
  const shown2 = picture(app, model2.name, sample);
  if (shown2 === null) return h("span", { class: "picture quiet" }, "no picture");
  const draw = (canvas) => {
    if (!shown2 || painted.get(canvas) === shown2) return;
    painted.set(canvas, shown2);
    canvas.getContext("2d")?.drawImage(shown2, 0, 0);
  };
  return h("canvas", { class: `picture ${shown2 && shown2.height <= PIXELS_TO ? "pixels" : ""}`, "aria-hidden": "true", width: shown2?.width ?? 1, height: shown2?.height ?? 1, onpaint: draw });
}
function valuesView(app, model2, id) {
  const inputs = content(app, model2.name, id);
  const known = model2.inputs.flatMap(({ name }) => {
    const tensor = inputs?.get(name);
    return tensor ? [{ name, tensor }] : [];
  });
  return h(
    "span",
    { class: "tensor number" },
    known.map(({ name, tensor }) => tensor.values.length >= SERIES_FROM ? series(name, tensor) : text(tensor))
  );
}
function text({ values }) {
  const shown2 = values.slice(0, VALUES_SHOWN).map(decimal).join("  ");
  return `${shown2}${values.length > VALUES_SHOWN ? " …" : ""}`;
}
function series(name, { shape, values }) {
  const inner = shape.length > 2 ? shape.at(-1) ?? 1 : 1;
  const one = values.filter((_, index) => index % inner === 0);
  const at = linear({ low: 0, high: 95 }, { low: 0, high: one.length - 1 });
  const shown2 = one.length > 96 ? Array.from({ length: 96 }, (_, index) => one[Math.round(at(index))] ?? 0) : one;
  return sparkline(shown2, `${name}: ${one.length} values`);
}
function toggle(set, id) {
  if (!set.delete(id)) set.add(id);
}
function press2(app, model2, items, columns, event) {
  const work = workOf(app, model2.name);
  const moves2 = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const move = moves2[event.key];
  const classes = model2.target.num_classes ?? 0;
  const digit = CLASS_KEYS.indexOf(event.key);
  if (event.altKey || event.ctrlKey && event.key !== "z") return;
  if (move !== void 0) step(app, work, items, move);
  else if (event.key === " " && work.active !== null) toggle(work.selected, work.active);
  else if (event.key === "u" || event.key === "z") void undo(app, model2);
  else if (event.key === "Delete") askDelete(app, model2);
  else if (event.key === "Escape") work.selected.clear();
  else if (digit >= 0 && digit < classes && chosen2(app, model2).length > 0) {
    const isOne = work.selected.size === 0;
    void label(app, model2, chosen2(app, model2), digit);
    if (isOne) step(app, work, items, 1);
  } else return;
  event.preventDefault();
  app.draw();
}
function step(app, work, items, by) {
  const now = items.findIndex(({ id }) => id === work.active);
  const next = now < 0 ? 0 : Math.min(items.length - 1, Math.max(0, now + by));
  work.active = items[next]?.id ?? null;
  app.draw();
  requestAnimationFrame(() => {
    document.getElementById(`sample-${work.active}`)?.scrollIntoView({ block: "nearest" });
  });
}

// src/views/samples/upload.ts
function uploadView(app, model2) {
  const upload = uploadOf(app, model2.name);
  const isImage = takesImages(model2);
  const isOff = upload.stop !== null || app.state.connection === "lost";
  const take = (event) => {
    const field3 = event.currentTarget;
    if (field3.files !== null) void send(app, model2, chosen(field3.files));
    field3.value = "";
  };
  const field2 = (title, isFolder) => h(
    "label",
    { class: `file ${isOff ? "off" : ""}` },
    title,
    h("input", { type: "file", class: "visually-hidden", multiple: true, webkitdirectory: isFolder, disabled: isOff, onchange: take })
  );
  return h(
    "div",
    { class: "drop", "data-key": "upload", role: "group", "aria-label": "Add samples" },
    h("p", { class: "quiet" }, isImage ? "Drop pictures or folders anywhere here, or" : "Drop .npz, .csv or .json files anywhere here, or"),
    field2("Choose files", false),
    isImage ? field2("Choose a folder", true) : null,
    isImage && model2.target.classes !== null ? labelField(app, model2) : null,
    upload.stop === null ? null : progress(app, model2),
    upload.faults.length === 0 ? null : h("ul", { class: "problem", role: "alert" }, upload.faults.map((fault) => h("li", {}, fault)))
  );
}
function labelField(app, model2) {
  const upload = uploadOf(app, model2.name);
  const choose = (event) => {
    upload.label = event.currentTarget.value;
  };
  const options = [["folder", "by folder"], ["none", "none"], ...(model2.target.classes ?? []).map((name) => [name, name])];
  return h(
    "label",
    { class: "inline" },
    h("span", { class: "quiet" }, "Their label"),
    h("select", { onchange: choose }, options.map(([value, text2]) => h("option", { value: value ?? "", selected: value === upload.label }, text2 ?? "")))
  );
}
function progress(app, model2) {
  const { sent, total: total2, stop } = uploadOf(app, model2.name);
  return h(
    "div",
    { class: "sending", role: "status", "data-key": "sending" },
    h("progress", { max: total2, value: sent, "aria-label": "Files sent" }),
    h("span", { class: "quiet number" }, `${count(sent)} of ${count(total2)} files sent`),
    h("button", { type: "button", onclick: () => stop?.abort() }, "Stop")
  );
}

// src/views/samples/samples.ts
var KEYED_CLASSES = 10;
function samplesTab(app, model2) {
  const listed = list(app, model2.name);
  return h(
    "div",
    {
      class: "stack",
      "data-key": "samples",
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => {
        event.preventDefault();
        if (event.dataTransfer) void dropped(event.dataTransfer).then((files) => send(app, model2, files));
      }
    },
    filters(app, model2),
    uploadView(app, model2),
    toolbar(app, model2, listed?.items ?? []),
    listed === void 0 ? loading() : listed === null || listed.items.length === 0 ? h("p", { class: "quiet", "data-key": "none" }, none(app)) : gridView(app, model2, listed)
  );
}
function none(app) {
  if (showOf(app) === "suspect") return "The current version doubts no label.";
  return app.route.query.size === 0 ? "No samples. Drop files here to add some." : "No such samples.";
}
function filters(app, model2) {
  const show = showOf(app);
  const canFilter = show !== "suspect" && show !== "uncertain" && show !== "duplicates";
  const classes = model2.target.classes ?? numbers(model2.target.num_classes);
  const select = (name, title, options) => h(
    "label",
    { class: "inline", "data-key": name },
    h("span", { class: "quiet" }, title),
    h(
      "select",
      { onchange: (event) => filterTo(app, model2.name, { [name]: event.currentTarget.value || null }) },
      options.map(
        ([value, text2]) => h("option", { value, selected: (app.route.query.get(name) ?? "") === value }, text2)
      )
    )
  );
  const shows = Object.entries(SHOWN).map(([key, { title }]) => [key === "all" ? "" : key, title]);
  return h(
    "div",
    { class: "toolbar", "data-key": "filters", role: "group", "aria-label": "Filter" },
    select("show", "Show", shows),
    canFilter && classes.length > 0 ? select("label", "Label", [["", "any"], ...classes.map((name) => [name, name])]) : null,
    canFilter ? select("split", "Split", [["", "any"], ["train", "train"], ["validation", "validation"], ["base", "base set"]]) : null,
    h("p", { class: "quiet", role: "status" }, counted(app, model2))
  );
}
function numbers(classes) {
  return classes === null ? [] : Array.from({ length: classes }, (_, index) => String(index));
}
function counted(app, model2) {
  const known = stats(app, model2.name);
  if (!known) return "";
  const aside = known.quarantined > 0 ? `, ${count(known.quarantined)} set aside` : "";
  return `${plural(known.train + known.validation + known.base, "labelled sample")}, ${count(known.unlabelled)} unlabelled${aside}`;
}
function toolbar(app, model2, items) {
  const work = workOf(app, model2.name);
  const ids = chosen2(app, model2);
  const classes = model2.target.classes ?? numbers(model2.target.num_classes);
  const isBusy = app.state.pending.has(`label:${model2.name}`) || app.state.connection === "lost";
  const give = (value) => void label(app, model2, chosen2(app, model2), value);
  return h(
    "div",
    { class: "toolbar sticky", "data-key": "toolbar", role: "group", "aria-label": "Labelling" },
    h("p", { class: "quiet number", role: "status" }, work.selected.size > 0 ? `${plural(work.selected.size, "sample")} selected` : `${count(items.length)} shown`),
    classes.slice(0, KEYED_CLASSES).map(
      (name, index) => h(
        "button",
        { type: "button", "data-key": `class-${index}`, disabled: isBusy || ids.length === 0, onclick: () => give(index) },
        h("kbd", {}, String((index + 1) % 10)),
        ` ${name}`
      )
    ),
    classes.length > KEYED_CLASSES ? otherClasses(classes, isBusy || ids.length === 0, give) : null,
    h(
      "button",
      { type: "button", "data-key": "unlabel", disabled: isBusy || ids.length === 0, onclick: () => give(null) },
      "No label"
    ),
    h(
      "button",
      { type: "button", "data-key": "undo", disabled: isBusy || work.undo.length === 0, onclick: () => void undo(app, model2) },
      h("kbd", {}, "U"),
      " Undo"
    ),
    items.length > 0 ? opener("select-all", work.selected.size > 0 ? "Select none" : "Select all", () => selectAll(app, model2, items)) : null,
    ids.length > 0 ? opener("ask-delete", "Delete …", () => askDelete(app, model2), plural(ids.length, "sample"), "danger") : null,
    outcome(app, `label:${model2.name}`)
  );
}
function otherClasses(classes, disabled, give) {
  const choose = (event) => {
    const field2 = event.currentTarget;
    if (field2.value !== "") give(Number(field2.value));
    field2.value = "";
  };
  return h(
    "select",
    { "aria-label": "Another class", disabled, onchange: choose },
    h("option", { value: "" }, "another class"),
    classes.slice(KEYED_CLASSES).map((name, index) => h("option", { value: index + KEYED_CLASSES }, name))
  );
}
function selectAll(app, model2, items) {
  const work = workOf(app, model2.name);
  work.selected = work.selected.size > 0 ? /* @__PURE__ */ new Set() : new Set(items.map(({ id }) => id));
  app.draw();
}

// src/views/models/settings.ts
var limit = (name, title, unit, scale) => ({
  name,
  title,
  kind: "number",
  isOptional: true,
  ...unit ? { unit } : {},
  ...scale ? { scale } : {}
});
var PARTS = [
  {
    key: "gate",
    title: "Gate",
    settings: [
      { name: "mode", title: "A new version becomes latest", kind: "choice", options: [["if_not_worse", "if it is not worse"], ["always", "always"], ["manual", "by hand alone"]] },
      { name: "metric", title: "Judged by", kind: "choice", options: [["accuracy", "accuracy"], ["loss", "loss"], ["mae", "mean absolute error"]] },
      { name: "margin", title: "Worse by more than this is worse even within chance", kind: "number" },
      { name: "min_validation_samples", title: "Least validation samples", kind: "number" },
      { name: "min_per_class", title: "Least samples of each class", kind: "number" },
      { name: "base_set", title: "The base set counts too", kind: "flag" },
      { name: "base_margin", title: "Drop that the base set allows", kind: "number" }
    ]
  },
  {
    key: "quota",
    title: "Quota of samples",
    settings: [
      limit("max_samples", "Most samples"),
      limit("max_bytes", "Most space", "MiB", 2 ** 20),
      { name: "when_full", title: "When it is full, what goes first", kind: "choice", options: [["oldest", "the oldest"], ["reservoir", "any, at random"], ["balanced", "of the largest class"]] }
    ]
  },
  {
    key: "retention",
    title: "Versions that are kept",
    settings: [limit("max_versions", "Most versions"), limit("max_age_days", "Oldest", "days"), limit("max_bytes", "Most space", "MiB", 2 ** 20)]
  }
];
function settingsTab(app, model2) {
  const { name } = model2;
  const stale = ["/v1/models?", modelPath(name)];
  return h(
    "div",
    { class: "columns", "data-key": "settings" },
    h(
      "div",
      { class: "stack" },
      PARTS.map(
        ({ key, title, settings }) => section(
          title,
          { id: key },
          settingsForm(app, {
            name: `${key}:${name}`,
            groups: [{ title, settings }],
            values: model2[key],
            pointer: `/${key}`,
            stale,
            send: async (changed) => {
              const body = key === "gate" ? changed : { ...model2[key], ...changed };
              await app.api.patch(modelPath(name), { [key]: body });
              return `${title} of ${name}: saved.`;
            }
          })
        )
      )
    ),
    h("div", { class: "stack" }, aboutView(model2), section("Delete", { id: "delete" }, deletion(app, model2)))
  );
}
function aboutView(model2) {
  const { loss, optimizer, engine, output, parameters, notes, preprocess, hyperparameters } = model2;
  const pairs = [
    ["loss", typeof loss === "string" ? loss : `output ${loss.output}`],
    ["optimizer", optimizer],
    ["engine", engine],
    ["output", output],
    ["parameters that train", count(parameters.trainable)],
    ["frozen parameters", count(parameters.frozen)],
    ...Object.entries(hyperparameters).map(([key, value]) => [key, JSON.stringify(value)])
  ];
  return section(
    "What it is",
    { id: "about" },
    h("dl", { class: "pairs" }, pairs.map(([key, value]) => h("div", { "data-key": key }, h("dt", {}, key), h("dd", {}, value)))),
    notes.length > 0 && h("ul", { class: "quiet" }, notes.map((note2) => h("li", {}, note2))),
    preprocess.length > 0 && h("ul", {}, preprocess.map((each2) => h("li", {}, h("code", {}, JSON.stringify(each2))))),
    h("details", {}, h("summary", {}, `Initializers that train (${parameters.names.length})`), h("ul", { class: "names" }, parameters.names.map((each2) => h("li", {}, h("code", {}, each2)))))
  );
}
function deletion(app, { name }) {
  const ask = () => confirm(app, {
    title: `Delete ${name}?`,
    detail: "Its samples, jobs, checkpoints and versions go with it, for good. Apps can no longer fetch it.",
    yes: "Delete the model",
    name: `delete-model:${name}`,
    stale: [],
    run: async () => {
      await app.api.remove(modelPath(name));
      app.go(to(["models"]));
      return `${name} was deleted.`;
    }
  });
  return h("div", { class: "buttons" }, opener(`ask-delete-model:${name}`, "Delete the model …", ask, name, "danger"));
}

// src/views/models/train.ts
var FIELDS = [
  { name: "epochs", title: "Epochs", step: "1", fallback: "the job chooses" },
  { name: "max_seconds", title: "At most", unit: "seconds", step: "any", fallback: "no limit" },
  { name: "batch_size", title: "Batch size", unit: "samples", step: "1", fallback: "the job chooses, or 32" },
  { name: "learning_rate", title: "Learning rate", step: "any", fallback: "the job chooses, or 0.001" },
  { name: "early_stopping_patience", title: "Patience", unit: "epochs", step: "1", fallback: "the job chooses" },
  { name: "seed", title: "Seed", step: "1", fallback: "a new one" }
];
function openTraining(app, model2) {
  const name = `train-dialog:${model2.name}`;
  app.state.results.delete(name);
  app.open(
    () => h(
      "form",
      { class: "form", novalidate: true, "data-key": name, onsubmit: (event) => void submit(app, model2, name, event) },
      h("h2", { id: "dialog-title" }, `Train ${model2.name}`),
      h("p", { class: "quiet" }, "Empty fields keep what is shown in them."),
      h("div", { class: "fields" }, FIELDS.map((field2) => fieldView(app, model2, name, field2)), startField()),
      h(
        "label",
        { class: "check" },
        h("input", { type: "checkbox", name: "ignore_policy" }),
        "Train now, whatever the policy says"
      ),
      outcome(app, name),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => app.close() }, "Close"),
        h("button", { type: "submit", class: "primary", disabled: app.state.pending.has(name) }, "Queue the job")
      )
    )
  );
}
function fieldView(app, model2, form, { name, title, unit, step: step2, fallback }) {
  const set = model2.hyperparameters[name];
  const fault = app.state.results.get(form)?.faults.find(({ pointer }) => pointer === `/${name}`);
  return h(
    "label",
    { "data-key": name },
    h("span", {}, title, unit ? h("span", { class: "quiet" }, ` in ${unit}`) : null),
    h("input", {
      name,
      type: "number",
      step: step2,
      placeholder: set === void 0 || set === null ? fallback : `${String(set)}, the model’s default`,
      "aria-invalid": fault !== void 0
    }),
    fault !== void 0 && h("span", { class: "problem" }, fault.detail)
  );
}
function startField() {
  return h(
    "label",
    { "data-key": "from" },
    h("span", {}, "Begin with"),
    h(
      "select",
      { name: "from" },
      h("option", { value: "latest" }, "what apps fetch now"),
      h("option", { value: "base" }, "the model as registered")
    )
  );
}
async function submit(app, model2, name, event) {
  event.preventDefault();
  const given = new FormData(event.currentTarget);
  const body = { from: given.get("from"), ignore_policy: given.has("ignore_policy") };
  for (const field2 of FIELDS) {
    const text2 = String(given.get(field2.name) ?? "").trim();
    if (text2 !== "") body[field2.name] = Number(text2);
  }
  const hasWorked = await app.act(name, ["/v1/jobs", "/v1/device"], async () => {
    const job2 = await app.api.post(modelPath(model2.name, "/jobs"), body);
    return { text: `Job ${job2.id} was queued.`, link: to(["jobs", job2.id]) };
  });
  if (hasWorked) app.close();
}

// src/views/models/try.ts
function tryTab(app, model2) {
  const trial = app.draft(`try:${model2.name}`, () => ({ body: null, picture: null, answer: null, kept: null }));
  return h(
    "div",
    {
      class: "columns",
      "data-key": "try",
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => {
        event.preventDefault();
        const file = event.dataTransfer?.files[0];
        if (file && takesImages(model2)) void predict(app, model2, trial, file);
      }
    },
    section("Try it", { id: "trial" }, takesImages(model2) ? pictureField(app, model2, trial) : valuesField(app, model2, trial), outcome(app, nameOf2(model2))),
    trial.answer === null ? null : section(`Version ${trial.answer.version} says`, { id: "answer" }, answerView(app, model2, trial, trial.answer))
  );
}
function nameOf2({ name }) {
  return `try:${name}`;
}
function pictureField(app, model2, trial) {
  const take = (event) => {
    const field2 = event.currentTarget;
    const [file] = field2.files ?? [];
    if (file) void predict(app, model2, trial, file);
    field2.value = "";
  };
  const { picture: picture2 } = trial;
  const draw = (canvas) => {
    if (picture2) canvas.getContext("2d")?.drawImage(picture2, 0, 0);
  };
  return [
    h(
      "div",
      { class: "drop" },
      h("p", { class: "quiet" }, "Drop a picture here, or"),
      h("label", { class: "file" }, "Choose a picture", h("input", { type: "file", accept: "image/*", class: "visually-hidden", onchange: take }))
    ),
    picture2 && h("canvas", { class: "tried", role: "img", "aria-label": "The picture", width: picture2.width, height: picture2.height, onpaint: draw })
  ];
}
function valuesField(app, model2, trial) {
  const send2 = (event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const inputs = Object.fromEntries(model2.inputs.map(({ name, shape }) => [name, tensorOf(String(given.get(name)), shape)]));
    void predict(app, model2, trial, new Blob([JSON.stringify({ inputs })], { type: "application/json" }));
  };
  return h(
    "form",
    { class: "form", onsubmit: send2, novalidate: true },
    model2.inputs.map(
      ({ name, shape }) => h(
        "label",
        { class: "form", "data-key": name },
        h("span", {}, name, h("span", { class: "quiet" }, ` ${shape.join("×") || "one"} numbers, with commas or spaces between`)),
        h("textarea", { name, rows: 3, spellcheck: "false" })
      )
    ),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary", disabled: app.state.pending.has(nameOf2(model2)) }, "Predict"))
  );
}
function tensorOf(text2, shape) {
  const numbers2 = text2.split(/[\s,;[\]]+/).filter(Boolean).map(Number);
  const nest = (values, sizes) => {
    const [size, ...rest] = sizes;
    if (size === void 0) return values[0];
    if (rest.length === 0) return values;
    const each2 = values.length / size;
    return Array.from({ length: size }, (_, at) => nest(values.slice(at * each2, (at + 1) * each2), rest));
  };
  const count2 = shape.reduce((product, size) => product * size, 1);
  return numbers2.length === count2 ? nest(numbers2, shape) : numbers2;
}
async function predict(app, model2, trial, body) {
  const done = await app.act(nameOf2(model2), [], async () => {
    const answer = await app.api.upload(modelPath(model2.name, "/predict"), body);
    const picture2 = body.type.startsWith("image/") ? await createImageBitmap(body) : null;
    Object.assign(trial, { body, answer, picture: picture2, kept: null });
    return null;
  });
  if (!done) Object.assign(trial, { answer: null, picture: null });
  app.draw();
}
function answerView(app, model2, trial, answer) {
  const [prediction] = answer.predictions;
  if (prediction === void 0) return [];
  const { probabilities, values } = prediction;
  if (!probabilities) return [h("p", { class: "measure" }, h("span", { class: "value" }, JSON.stringify(values, (_, value) => typeof value === "number" ? Number(decimal(value).replaceAll(",", "")) : value)))];
  const names = answer.classes ?? probabilities.map((_, index) => String(index));
  const ranked = probabilities.map((probability, index) => ({ name: names[index] ?? String(index), index, probability: probability ?? 0 })).sort((a, b) => b.probability - a.probability);
  return [
    h("p", { class: "quiet" }, trial.kept === null ? "Press what it is: that becomes a sample to train on." : `Kept as a sample: ${trial.kept}.`),
    h("ul", { class: "bars" }, ranked.map((each2) => probabilityRow(app, model2, trial, each2)))
  ];
}
function probabilityRow(app, model2, trial, { name, index, probability }) {
  return h(
    "li",
    { "data-key": name },
    press(app, {
      name: `keep:${model2.name}:${index}`,
      label: name,
      about: "is right",
      stale: ["/v1/models?", modelPath(model2.name)],
      disabled: trial.kept !== null,
      run: async () => {
        await keep(app, model2, trial, index);
        trial.kept = name;
        return `Kept as a sample: ${name}.`;
      }
    }),
    h("span", { class: "number" }, percent(probability)),
    h("meter", { min: 0, max: 1, value: probability, "aria-label": `Probability of ${name}` })
  );
}
async function keep(app, model2, { body }, label2) {
  if (body === null) return;
  const path = modelPath(model2.name, "/samples");
  if (body.type.startsWith("image/")) {
    await app.api.upload(withQuery(path, { label: label2 }), body);
    return;
  }
  const sample = { ...JSON.parse(await body.text()), label: label2 };
  await app.api.post(path, sample);
}

// src/views/parts/save.ts
var KEPT_MS = 6e4;
function save(file, name) {
  const link = h("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}

// src/views/models/versions.ts
function timeline(app, model2, list2) {
  return section(
    "Versions",
    { id: "versions" },
    holdView(app, model2),
    h("ol", { class: "timeline", reversed: true }, list2.map((version) => versionView(app, model2, version)))
  );
}
function staleOf({ name }) {
  return ["/v1/models?", modelPath(name)];
}
function holdView(app, model2) {
  const { name, held_since: since } = model2;
  if (since === null) return null;
  return h(
    "div",
    { class: "notice held", "data-key": "hold" },
    h("p", {}, "Held by hand ", when(since), ": jobs do not change what apps fetch."),
    press(app, {
      name: `release:${name}`,
      label: "Release",
      about: name,
      stale: staleOf(model2),
      run: async () => {
        await app.api.post(modelPath(name, "/release"));
        return "The gate decides again.";
      }
    })
  );
}
function versionView(app, model2, version) {
  const number = version.version;
  const isLatest = model2.latest_version === number;
  const judged = measure(version.metrics, version.baseline, model2.gate.metric);
  return h(
    "li",
    { "data-key": `version-${number}`, class: isLatest ? "latest" : null, "aria-label": `Version ${number}` },
    h(
      "div",
      { class: "row-head" },
      h("h3", {}, `Version ${number}`),
      badges(version, isLatest),
      h("p", { class: "quiet" }, when(version.created_at), ` · ${bytes(version.size_bytes)}`, jobOf(version))
    ),
    judged === null ? null : measureView(judged, version.promoted || version.job_id === null),
    h("p", { class: "reason" }, version.job_id === null ? "The model as it was registered." : version.reason),
    h("div", { class: "buttons" }, moves(app, model2, version, isLatest))
  );
}
function jobOf({ job_id: id }) {
  return id === null ? [] : [" · ", h("a", { href: to(["jobs", id]) }, `job ${id}`)];
}
function badges(version, isLatest) {
  const others2 = version.aliases.filter((alias) => alias !== "latest");
  return [
    isLatest && badge("latest", "latest"),
    version.job_id !== null && !version.promoted && badge("held", "not promoted"),
    version.job_id !== null && version.promoted && !isLatest && badge("queued", "was promoted"),
    others2.map((alias) => h("span", { class: "badge" }, alias))
  ];
}
function moves(app, model2, version, isLatest) {
  const { name } = model2;
  const number = version.version;
  const about = `version ${number}`;
  return [
    isLatest ? number > 1 && opener(`ask-rollback:${name}`, "Roll back …", () => askRollback(app, model2, version), about) : press(app, {
      name: `promote:${name}:${number}`,
      label: "Promote",
      about,
      stale: staleOf(model2),
      run: async () => {
        await app.api.put(modelPath(name, "/aliases/latest"), { version: number });
        return `Apps fetch version ${number} of ${name} now.`;
      }
    }),
    press(app, {
      name: `download:${name}:${number}`,
      label: "Download",
      about,
      run: async () => {
        const file = await app.api.bytes(modelPath(name, `/versions/${number}/model.onnx`));
        save(file, `${name}-${number}.onnx`);
        return null;
      }
    })
  ];
}
function askRollback(app, model2, { version }) {
  confirm(app, {
    title: `Roll ${model2.name} back?`,
    detail: `Apps fetch the version before version ${version} at once, and jobs do not change that until you release it.`,
    no: `Keep version ${version}`,
    yes: "Roll back",
    name: `rollback:${model2.name}`,
    stale: staleOf(model2),
    run: async () => {
      const now = await app.api.post(modelPath(model2.name, "/rollback"));
      return `Apps fetch version ${now.version} of ${model2.name} now.`;
    }
  });
}
function measureView({ name, isShare, after, before }, isGood) {
  const show = isShare ? percent : decimal;
  return h(
    "div",
    { class: `measure ${isGood ? "good" : "held"}` },
    h("p", {}, h("span", { class: "value" }, show(after)), ` validation ${name}`),
    before !== null && h("p", { class: "quiet" }, change(show(after), show(before), after > before)),
    isShare && bar(after, before)
  );
}
function change(after, before, isUp) {
  if (after === before) return "the same as the version before";
  return `${isUp ? "up" : "down"} from ${before}`;
}
function bar(after, before) {
  return s(
    "svg",
    { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", width: 100, height: 8 }),
    s("rect", { class: "fill", width: after * 100, height: 8 }),
    before !== null && s("rect", { class: "notch", x: before * 100 - 0.4, width: 0.8, height: 8 })
  );
}

// src/views/models/model.ts
var JOBS_SHOWN = 5;
var TABS = [
  { key: "", name: "Versions", view: versionsTab },
  { key: "samples", name: "Samples", view: samplesTab },
  { key: "try", name: "Try it", view: tryTab },
  { key: "settings", name: "Settings", view: settingsTab }
];
function modelPage(app, parts) {
  const [, name = "", key = ""] = parts;
  const known = model(app, name);
  if (known === void 0) return [heading(name), loading()];
  const tab = TABS.find((each2) => each2.key === key);
  if (known === null || tab === void 0) {
    return [
      heading(known === null ? `There is no model ${name}` : "There is no such page"),
      h("p", {}, h("a", { href: to(["models"]) }, "All models"))
    ];
  }
  return [head2(app, known), tabs(known, tab), tab.view(app, known)];
}
function head2(app, known) {
  const { name, parameters, target, latest_version: latest } = known;
  const [inputs] = [known.inputs.map(({ name: input, shape }) => `${input} ${shape.join("×") || "1"}`).join(", ")];
  const classes = target.num_classes === null ? "" : `, ${count(target.num_classes)} classes`;
  return h(
    "div",
    { class: "heading", "data-key": "heading" },
    h("h1", { tabindex: -1 }, name),
    h(
      "p",
      { class: "quiet" },
      `${inputs}${classes}, ${count(parameters.trainable)} of ${count(parameters.trainable + parameters.frozen)} parameters train` + (latest === null ? "" : `, apps fetch version ${latest}`)
    ),
    opener(`train:${name}`, "Train …", () => openTraining(app, known), name, "primary")
  );
}
function tabs({ name }, current) {
  return h(
    "nav",
    { class: "tabs", "aria-label": `Pages of ${name}`, "data-key": "tabs" },
    TABS.map(
      ({ key, name: title }) => h(
        "a",
        { href: to(["models", name, ...key ? [key] : []]), "aria-current": key === current.key ? "page" : null },
        title
      )
    )
  );
}
function versionsTab(app, known) {
  const list2 = versions(app, known.name);
  const mine = (jobs(app)?.ended ?? []).filter((job2) => job2.model === known.name).slice(0, JOBS_SHOWN);
  const counted2 = stats(app, known.name);
  return h(
    "div",
    { class: "columns wide", "data-key": "columns" },
    list2 ? timeline(app, known, list2) : loading(),
    h(
      "div",
      { class: "stack" },
      section("Samples", { id: "counts" }, samplesView(known, counted2 ?? null)),
      list2 && list2.length > 1 ? section("Course of the metric", { id: "course", class: "course" }, courseOf(known, list2)) : null,
      mine.length > 0 ? section("Last jobs", { id: "model-jobs" }, jobRows(mine)) : null
    )
  );
}
function jobRows(mine) {
  return h("ul", { class: "rows" }, mine.map(outcomeRow));
}
function samplesView({ name, samples }, counted2) {
  if (Object.values(samples).every((each2) => each2 === 0)) return [h("p", { class: "quiet" }, "no samples yet")];
  const facts2 = [
    fact("train", count(samples.train)),
    fact("validation", count(samples.validation)),
    fact("unlabelled", count(samples.unlabelled)),
    samples.base > 0 && fact("base set", count(samples.base)),
    counted2 !== null && counted2.quarantined > 0 && fact("set aside", count(counted2.quarantined)),
    counted2 !== null && fact("size", bytes(counted2.size_bytes))
  ];
  return [h("dl", { class: "facts" }, facts2), counted2 === null ? null : classBars(name, counted2)];
}
function classBars(name, { labels }) {
  const byClass = /* @__PURE__ */ new Map();
  for (const { label: label2, name: title, count: number } of labels) {
    if (label2 === null) continue;
    const key = title ?? String(label2);
    byClass.set(key, (byClass.get(key) ?? 0) + number);
  }
  const most = Math.max(1, ...byClass.values());
  if (byClass.size === 0) return null;
  return h(
    "ul",
    { class: "bars", "aria-label": `Labelled samples of ${name} by class` },
    [...byClass].map(
      ([title, number]) => h(
        "li",
        { "data-key": title },
        h("span", {}, title),
        h("span", { class: "quiet number" }, count(number)),
        h("meter", { min: 0, max: most, value: number, "aria-label": `${title}: ${decimal(number)}` })
      )
    )
  );
}

// src/views/system/system.ts
var SCOPES = [
  "samples:write",
  "samples:read",
  "predict",
  "models:read",
  "train",
  "models:admin",
  "device:policy",
  "federate",
  "backup",
  "tokens:admin"
];
var TOKENS = ["/v1/tokens"];
function systemPage(app) {
  return [
    heading("System"),
    tokensView(app),
    h("div", { class: "columns", "data-key": "columns" }, dataView(app), aboutView2(app))
  ];
}
function tokensView(app) {
  const all = app.resources.read("/v1/tokens", (api) => api.all("/v1/tokens"));
  const now = (/* @__PURE__ */ new Date()).toISOString();
  const shown2 = (all ?? []).filter(({ revoked_at: revoked, expires_at: ends }) => revoked === null && (ends === null || ends > now));
  return section(
    "Tokens",
    { id: "tokens" },
    all === void 0 ? loading() : tokenTable(app, shown2),
    h("div", { class: "buttons" }, opener("new-token", "Make a token …", () => askToken(app)))
  );
}
function tokenTable(app, shown2) {
  if (shown2.length === 0) return h("p", { class: "quiet" }, "No token counts beside that of admin.token.");
  return scrolled(
    "Tokens",
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ["Name", "Scopes", "Models", "Used", "Ends", ""].map((title) => h("th", { scope: "col" }, title || h("span", { class: "visually-hidden" }, "Actions"))))),
      h("tbody", {}, shown2.map((token) => tokenRow(app, token)))
    )
  );
}
function tokenRow(app, { id, name, scopes, models: models2, last_used_at: used, expires_at: ends }) {
  const revoke = () => confirm(app, {
    title: `Revoke ${name}?`,
    detail: "It stops working at once, for good. An app that uses it needs another one.",
    yes: "Revoke it",
    name: `revoke:${id}`,
    stale: TOKENS,
    run: async () => {
      await app.api.remove(`/v1/tokens/${id}`);
      return `${name} is revoked.`;
    }
  });
  return h(
    "tr",
    { "data-key": `token-${id}`, "aria-label": name },
    h("th", { scope: "row" }, name),
    h("td", {}, scopes.length === SCOPES.length ? "all" : scopes.join(", ")),
    h("td", {}, models2 === null ? "all" : models2.join(", ")),
    h("td", { class: "quiet" }, used === null ? "never" : when(used)),
    h("td", { class: "quiet" }, ends === null ? "never" : clock(ends)),
    h("td", { class: "act" }, opener(`ask-revoke:${id}`, "Revoke …", revoke, name))
  );
}
function askToken(app) {
  const name = "make-token";
  const made = [];
  const send2 = async (event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const models2 = String(given.get("models") ?? "").split(",").map((part) => part.trim()).filter(Boolean);
    const body = { name: given.get("name"), scopes: given.getAll("scope"), ...models2.length > 0 ? { models: models2 } : {} };
    await app.act(name, TOKENS, async () => {
      made.push((await app.api.post("/v1/tokens", body)).secret);
      return null;
    });
  };
  app.state.results.delete(name);
  app.open(() => made[0] === void 0 ? tokenForm(app, name, (event) => void send2(event)) : secretView(app, made[0]));
}
function tokenForm(app, name, onsubmit) {
  return h(
    "form",
    { class: "form", novalidate: true, "data-key": name, onsubmit },
    h("h2", { id: "dialog-title" }, "Make a token"),
    h(
      "div",
      { class: "fields" },
      h("label", {}, h("span", {}, "Name"), h("input", { name: "name", type: "text", autocomplete: "off" })),
      h("label", {}, h("span", {}, "Models, with commas between"), h("input", { name: "models", type: "text", placeholder: "all", autocomplete: "off" }))
    ),
    h("fieldset", {}, h("legend", {}, "It may"), h("div", { class: "fields" }, SCOPES.map((scope) => h("label", { class: "check" }, h("input", { type: "checkbox", name: "scope", value: scope }), scope)))),
    outcome(app, name),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "button", onclick: () => app.close() }, "Close"),
      h("button", { type: "submit", class: "primary", disabled: app.state.pending.has(name) }, "Make it")
    )
  );
}
function secretView(app, secret) {
  return h(
    "div",
    { class: "question", "data-key": "secret" },
    h("h2", { id: "dialog-title" }, "The token’s secret"),
    h("p", {}, "It is shown this one time; the daemon stores its digest alone."),
    h("p", { class: "secret" }, h("code", {}, secret)),
    h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: () => app.close() }, "I have it"))
  );
}
function dataView(app) {
  const state = app.resources.read("/v1/verification");
  return section(
    "Stored data",
    { id: "data" },
    state ? h("p", { class: state.damaged || state.error ? "problem" : "quiet", role: "status" }, verified(state)) : loading(),
    h(
      "div",
      { class: "buttons" },
      press(app, {
        name: "verify",
        label: "Verify all",
        stale: ["/v1/verification"],
        disabled: state?.running === true,
        run: async () => {
          await app.api.post("/v1/verification");
          return "All stored data are read and compared with their digests.";
        }
      }),
      press(app, {
        name: "backup",
        label: "Download a backup",
        run: async () => {
          save(await app.api.bytes("/v1/backup"), `honed-${(/* @__PURE__ */ new Date()).toISOString().slice(0, 10)}.zip`);
          return "The backup is downloaded; honed restore reads it.";
        }
      })
    )
  );
}
function verified({ running, read_bytes: read, total_bytes: total2, error, verified_at: at, damaged }) {
  if (running) return `${bytes(read)} of ${total2 === null ? "…" : bytes(total2)} read`;
  if (error !== null) return `The last reading ended too early: ${error}.`;
  if (damaged) {
    const samples = Object.values(damaged.samples).reduce((sum, each2) => sum + each2, 0);
    return `Damaged and set aside: ${samples} samples, ${Object.keys(damaged.files).length} files.`;
  }
  return at === null ? "Not verified yet." : `Everything was as it was stored, ${clock(at)}.`;
}
function aboutView2(app) {
  const ready = app.resources.read("/readyz");
  const restored = ready?.database_restored;
  return section(
    "About",
    { id: "about" },
    h("dl", { class: "pairs" }, h("div", {}, h("dt", {}, "honed"), h("dd", {}, ready?.version ?? "…"))),
    restored ? h("p", { class: "problem" }, `The database was damaged; it is the backup of ${clock(restored.backup_from)}.`) : null,
    h("p", { class: "quiet" }, h("code", {}, "honed doctor"), " checks the installation and trains one step.")
  );
}

// src/views/page.ts
var CONNECTIONS = {
  connecting: "connecting",
  live: "live",
  polling: "live, asked every 2 s",
  lost: "no answer"
};
var PLACES = [
  { key: "", name: "Overview", view: overviewPage },
  { key: "models", name: "Models", view: (app, parts) => parts[1] ? modelPage(app, parts) : modelsPage(app) },
  { key: "add", name: "Add a model", view: addPage, isHidden: true },
  { key: "jobs", name: "Jobs", view: (app, parts) => parts[1] ? jobPage(app, Number(parts[1])) : jobsPage(app) },
  { key: "device", name: "Device", view: deviceView },
  { key: "system", name: "System", view: systemPage }
];
function titleOf({ parts }) {
  const place = PLACES.find(({ key }) => key === (parts[0] ?? ""));
  return parts.length > 1 ? `${parts[1]} · ${place?.name ?? ""} · Hone` : `${place?.name ?? "Not found"} · Hone`;
}
function pageView(app, forget2) {
  const { parts } = app.route;
  const place = PLACES.find(({ key }) => key === (parts[0] ?? ""));
  return [
    navigation(app, place, forget2),
    h(
      "div",
      { class: "content", "data-key": "content" },
      noticesView(app),
      pinnedView(app),
      h("main", { id: "main", "data-key": parts.join("/") }, place ? place.view(app, parts) : missing())
    ),
    toastsView(app)
  ];
}
function navigation(app, current, forget2) {
  const { connection } = app.state;
  return h(
    "header",
    { class: "side", "data-key": "side" },
    h("a", { class: "brand", href: HOME, "aria-label": "Hone, overview" }, "Hone"),
    h(
      "nav",
      { "aria-label": "Console" },
      PLACES.filter(({ isHidden }) => isHidden !== true).map(
        (place) => h(
          "a",
          { href: to(place.key === "" ? [] : [place.key]), "aria-current": place === current ? "page" : null },
          place.name
        )
      )
    ),
    h(
      "div",
      { class: "aside" },
      h("p", { class: `connection ${connection}`, role: "status" }, CONNECTIONS[connection]),
      h("a", { href: "/docs" }, "API"),
      h("button", { type: "button", class: "plain", onclick: forget2 }, "Forget token")
    )
  );
}
function noticesView(app) {
  const { connection, lostSince } = app.state;
  return h(
    "div",
    { class: "notices", "aria-live": "polite", "data-key": "notices" },
    connection === "lost" && h(
      "p",
      { class: "notice bad", "data-key": "lost" },
      h("strong", {}, "The daemon does not answer."),
      ` What you see is from ${lostSince === null ? "before" : clock(lostSince)}. Trying again …`
    ),
    app.resources.problems().map((problem) => h("p", { class: "notice bad", "data-key": problem }, problem))
  );
}
function toastsView(app) {
  return h(
    "div",
    { class: "toasts", role: "status", "data-key": "toasts" },
    app.state.toasts.map(
      ({ id, text: text2, link }) => h(
        "p",
        { class: "toast", "data-key": `toast-${id}` },
        link === null ? text2 : h("a", { href: link }, text2),
        h(
          "button",
          { type: "button", class: "plain", "aria-label": "Dismiss this message", onclick: () => app.forgetToast(id) },
          "×"
        )
      )
    )
  );
}
function missing() {
  return [
    heading("There is no such page"),
    h("p", {}, h("a", { href: HOME }, "Go to the overview"), ".")
  ];
}

// src/views/token.ts
function tokenView(problem) {
  return h(
    "main",
    { class: "gate" },
    h("h1", {}, "Hone"),
    h("p", {}, "See what this device trains, and control it. Run ", h("code", {}, "honed dashboard"), " to sign in, or paste a token."),
    h(
      "form",
      { id: "token-form", autocomplete: "off" },
      h("label", { for: "token" }, "Token"),
      h("input", {
        id: "token",
        type: "password",
        required: true,
        autocomplete: "off",
        spellcheck: "false",
        "aria-describedby": "token-help",
        "aria-invalid": problem !== null
      }),
      h("p", { role: "alert", class: "problem" }, problem),
      h("button", { type: "submit", class: "primary" }, "Open")
    ),
    h(
      "p",
      { id: "token-help", class: "quiet" },
      "The admin token is in the file ",
      h("code", {}, "admin.token"),
      " of the data folder; ",
      h("code", {}, "honed serve"),
      " prints its path when it starts. This tab keeps the token until it is closed."
    )
  );
}

// src/main.ts
var TOKEN_KEY = "honed.token";
var REDRAW_MS = 15e3;
var root = element("page", HTMLElement);
var dialog = element("dialog", HTMLDialogElement);
function askForToken(problem) {
  patch(root, h("div", { id: "page" }, tokenView(problem)));
  const field2 = element("token", HTMLInputElement);
  field2.focus();
  element("token-form", HTMLFormElement).onsubmit = (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN_KEY, field2.value.trim());
    field2.value = "";
    void open();
  };
}
async function redeem() {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  const { secret } = await new Api(null).post("/v1/sign-in", { code });
  sessionStorage.setItem(TOKEN_KEY, secret);
}
async function begin() {
  try {
    await redeem();
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    if (sessionStorage.getItem(TOKEN_KEY) === null) {
      askForToken(`Signing in did not work: ${error.message}.`);
      return;
    }
  }
  await open();
}
async function open() {
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
    askForToken(`The daemon refuses this token: ${error.message}.`);
  } finally {
    session.close();
  }
}
var Session = class {
  #ended = new AbortController();
  #app;
  #isDue = false;
  #shown = "";
  constructor(token) {
    this.#app = new App(new Api(token), () => this.#draw());
  }
  async run() {
    const { signal } = this.#ended;
    document.addEventListener("click", (event) => this.#click(event), { signal });
    window.addEventListener("popstate", () => this.#app.moved(), { signal });
    for (const moved of ["resize", "scroll"]) {
      window.addEventListener(moved, () => this.#draw(), { signal, passive: true });
    }
    dialog.addEventListener("close", () => this.#app.dialog && this.#app.close(), { signal });
    const redraw = setInterval(() => this.#draw(), REDRAW_MS);
    signal.addEventListener("abort", () => clearInterval(redraw));
    this.#drawNow();
    return await new Live(this.#app).run();
  }
  close() {
    this.#ended.abort();
    dialog.close();
  }
  /** At most once for each frame of the screen. */
  #draw() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      if (!this.#ended.signal.aborted) this.#drawNow();
    });
  }
  #drawNow() {
    const { resources, state, route } = this.#app;
    resources.beginDraw();
    const page = h(
      "div",
      { id: "page", class: state.connection === "lost" ? "stale" : null },
      pageView(this.#app, () => this.#forget())
    );
    const asked = this.#app.dialog?.() ?? null;
    patch(root, page);
    paint(root);
    resources.endDraw();
    document.title = titleOf(route);
    this.#showDialog(asked);
    this.#arrive();
  }
  #showDialog(asked) {
    if (asked === null) {
      dialog.close();
      dialog.replaceChildren();
      return;
    }
    patch(dialog, h("dialog", { id: "dialog", "aria-labelledby": "dialog-title" }, asked));
    if (!dialog.open) dialog.showModal();
  }
  /** After a change of page its heading takes the focus, and readers say it. */
  #arrive() {
    const path = this.#app.route.parts.join("/");
    if (path === this.#shown) return;
    const isFirst = this.#shown === "";
    this.#shown = path || " ";
    if (isFirst) return;
    window.scrollTo(0, 0);
    root.querySelector("main h1")?.focus({ preventScroll: true });
  }
  #click(event) {
    const href = followed(event);
    if (href === null) return;
    event.preventDefault();
    this.#app.go(href);
  }
  #forget() {
    sessionStorage.removeItem(TOKEN_KEY);
    location.reload();
  }
};
void begin();
