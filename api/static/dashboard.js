// src/api.ts
var TIMEOUT_MS = 15e3;
var Unreachable = class extends Error {
};
var Refused = class extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
  status;
  code;
};
var Api = class {
  #token;
  constructor(token) {
    this.#token = token;
  }
  async get(path) {
    return await this.#answer("GET", path);
  }
  async post(path, body) {
    return await this.#answer("POST", path, body);
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
    const response = await this.#send(path, request);
    if (!response.ok) throw await refusal(response);
    try {
      return await response.json();
    } catch (error) {
      throw new Unreachable("the answer broke off", { cause: error });
    }
  }
  async #send(path, request) {
    const headers = { ...request.headers, Authorization: `Bearer ${this.#token}` };
    try {
      return await fetch(path, {
        ...request,
        headers,
        cache: "no-store",
        credentials: "omit",
        redirect: "error"
      });
    } catch (error) {
      throw new Unreachable("no answer", { cause: error });
    }
  }
};
function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null);
  if (given.length === 0) return path;
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return `${path}${path.includes("?") ? "&" : "?"}${text}`;
}
function modelPath(name, rest = "") {
  return `/v1/models/${encodeURIComponent(name)}${rest}`;
}
async function refusal(response) {
  const told = await response.json().catch(() => null);
  const problem = typeof told === "object" && told !== null ? told : {};
  const code = "code" in problem ? String(problem.code) : "";
  const detail = "detail" in problem ? String(problem.detail) : `HTTP ${response.status}`;
  if (code === "not_ready") return new Unreachable(detail);
  return new Refused(response.status, code, detail);
}

// src/actions.ts
var STALE = ["device", "jobs", "curve"];
async function act(api, state, action, subject, reload) {
  const name = `${action}:${subject}`;
  if (state.pending.has(name)) return;
  state.pending.add(name);
  state.notice = null;
  try {
    if (action === "pause-all" || action === "resume-all") {
      await api.post(`/v1/${action.replace("-all", "")}`);
    } else if (action === "train") {
      const job = await api.post(modelPath(subject, "/jobs"), {});
      if (state.chosen !== null) state.chosen = job.id;
    } else {
      await api.post(`/v1/jobs/${subject}/${action}`);
    }
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    state.notice = `${words(action, subject)} did not work: ${error.message}.`;
  } finally {
    await reload(STALE);
    state.pending.delete(name);
  }
}
function words(action, subject) {
  if (action === "train") return `Training ${subject}`;
  if (action === "pause-all") return "Pausing all training";
  if (action === "resume-all") return "Resuming all training";
  const verbs = { pause: "Pausing", resume: "Resuming", cancel: "Cancelling" };
  return `${verbs[action] ?? action} job ${subject}`;
}

// src/dom.ts
var SVG = "http://www.w3.org/2000/svg";
function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}
function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}
function element(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} with id ${id}`);
  return found;
}
function filled(element2, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) {
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
  for (const name of present.getAttributeNames()) {
    if (!wanted.hasAttribute(name)) present.removeAttribute(name);
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (present.getAttribute(name) !== value) present.setAttribute(name, value);
  }
}

// src/events.ts
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
  feed(text) {
    const frames = [];
    this.#rest += text;
    const held = this.#rest.endsWith("\r") ? 1 : 0;
    const lines = this.#rest.slice(0, this.#rest.length - held).split(/\r\n|\n|\r/);
    this.#rest = (lines.pop() ?? "") + (held ? "\r" : "");
    for (const line2 of lines) {
      if (line2 === "") this.#dispatch(frames);
      else this.#take(line2);
    }
    return frames;
  }
  #take(line2) {
    const colon = line2.indexOf(":");
    const name = colon < 0 ? line2 : line2.slice(0, colon);
    const value = colon < 0 ? "" : line2.slice(colon + 1).replace(/^ /, "");
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

// src/parts.ts
var ALL = ["device", "models", "jobs", "curve"];
function staleAfter(happened) {
  const [family] = happened.type.split(".");
  if (family === "job") return ["jobs", "curve", "device"];
  if (family === "device" || family === "policy") return ["device", "jobs"];
  if (happened.type === "events.lost" || happened.model === null) return ALL;
  if (happened.type === "model.deleted") return ["jobs", "models"];
  if (family === "checkpoint") return [];
  return [`model:${happened.model}`];
}
function applyProgress(state, data) {
  const job = state.running.find((each) => each.id === data.job_id);
  if (job === void 0) return false;
  for (const name of Object.keys(job.progress)) {
    const value = data[name];
    if (typeof value === "number" || value === null) Object.assign(job.progress, { [name]: value });
  }
  if (typeof data.train_loss === "number") job.metrics.train_loss = data.train_loss;
  return true;
}
function parse(data) {
  const told = JSON.parse(data);
  if (typeof told !== "object" || told === null || !("type" in told)) return null;
  const { type, model, data: fields } = told;
  return { type: String(type), model: model ?? null, data: fields ?? {} };
}

// src/state.ts
function emptyState() {
  return {
    connection: "connecting",
    lostSince: null,
    models: null,
    device: null,
    running: [],
    waiting: [],
    ended: [],
    chosen: null,
    curves: /* @__PURE__ */ new Map(),
    notice: null,
    pending: /* @__PURE__ */ new Set()
  };
}
function shownJob(state) {
  const all = [...state.running, ...state.waiting, ...state.ended];
  const chosen = all.find((job) => job.id === state.chosen);
  return chosen ?? state.running[0] ?? state.ended[0] ?? null;
}

// src/loaders.ts
var ENDED_SHOWN = 12;
var CURVE_PAGE = 250;
var ENDED = /* @__PURE__ */ new Set(["succeeded", "failed", "cancelled"]);
async function loadDevice(api, state) {
  state.device = await unlessMissing(api.get("/v1/device"));
}
async function loadModels(api, state) {
  const models = await api.all("/v1/models");
  const known = await Promise.all(models.map((model) => withNewest(api, model)));
  state.models = new Map(known.map((each) => [each.model.name, each]));
}
async function loadModel(api, state, name) {
  const model = await unlessMissing(api.get(modelPath(name)));
  if (model === null) {
    state.models?.delete(name);
    return;
  }
  const models = new Map(state.models);
  models.set(name, await withNewest(api, model));
  state.models = new Map([...models].sort(([a], [b]) => a < b ? -1 : 1));
}
async function loadJobs(api, state) {
  const [running, queued, paused, newest] = await Promise.all([
    api.all("/v1/jobs?state=running"),
    api.all("/v1/jobs?state=queued"),
    api.all("/v1/jobs?state=paused"),
    api.get(withQuery("/v1/jobs", { limit: 100 }))
  ]);
  state.running = running;
  state.waiting = distinct([...queued, ...paused]).sort((a, b) => a.id - b.id);
  state.ended = newest.items.filter((job) => ENDED.has(job.state)).sort((a, b) => (b.finished_at ?? "").localeCompare(a.finished_at ?? "")).slice(0, ENDED_SHOWN);
}
async function loadCurve(api, state) {
  const job = shownJob(state);
  if (job === null) return;
  const kept = state.curves.get(job.id);
  const known = kept?.restarts === job.restarts ? kept : null;
  const complete = [...known?.complete ?? []];
  let cursor = known?.tailCursor ?? null;
  for (; ; ) {
    const path = withQuery(`/v1/jobs/${job.id}/metrics`, { limit: CURVE_PAGE, cursor });
    const page = await unlessMissing(api.get(path));
    if (page === null) return;
    if (page.next === null) {
      const { restarts } = job;
      state.curves.set(job.id, { restarts, complete, tail: page.items, tailCursor: cursor });
      return;
    }
    complete.push(...page.items);
    cursor = page.next;
  }
}
async function withNewest(api, model) {
  const path = withQuery(modelPath(model.name, "/versions"), { limit: 1 });
  const page = await unlessMissing(api.get(path));
  return { model, newest: page?.items[0] ?? null };
}
function distinct(jobs) {
  return [...new Map(jobs.map((job) => [job.id, job])).values()];
}
async function unlessMissing(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}

// src/waiting.ts
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

// src/reloader.ts
var SHORTEST_MS = 250;
var Reloader = class {
  constructor(api, state, onLoaded) {
    this.api = api;
    this.state = state;
    this.onLoaded = onLoaded;
  }
  api;
  state;
  onLoaded;
  #stale = /* @__PURE__ */ new Set();
  /** What waits for the next load that succeeds. */
  #awaiting = [];
  #wake = null;
  mark(parts) {
    for (const part of parts) this.#stale.add(part);
    this.#wake?.();
  }
  /** Mark, and resolve once the parts have been loaded. */
  reload(parts) {
    return new Promise((resolve) => {
      this.#awaiting.push(resolve);
      this.mark(parts);
    });
  }
  /** Load everything now. */
  async all() {
    this.mark(ALL);
    await this.#load();
  }
  /** Load whatever is marked, until the signal. Rejects with what a request rejects with. */
  async run(signal) {
    while (!signal.aborted) {
      await this.#load();
      await pause(SHORTEST_MS, signal);
      if (this.#stale.size === 0) await this.#marked(signal);
    }
  }
  async #load() {
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
  async #loadPart(part, all) {
    if (part === "device") await loadDevice(this.api, this.state);
    else if (part === "models") await loadModels(this.api, this.state);
    else if (part === "jobs") await loadJobs(this.api, this.state);
    else if (part !== "curve" && !all.has("models")) {
      await loadModel(this.api, this.state, part.slice("model:".length));
    }
  }
  async #marked(signal) {
    await new Promise((resolve) => {
      this.#wake = resolve;
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    this.#wake = null;
  }
};

// src/live.ts
var POLL_MS = 2e3;
var RETRY_MS = 1e3;
var SLOWEST_RETRY_MS = 5e3;
var SILENCE_MS = 6e4;
var LOOK_AGAIN_MS = 1e4;
var Live = class {
  constructor(api, state, render) {
    this.api = api;
    this.state = state;
    this.render = render;
    this.reloader = new Reloader(api, state, render);
  }
  api;
  state;
  render;
  reloader;
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
    const hide = () => controller.abort();
    document.addEventListener("visibilitychange", hide, { once: true });
    const again = setInterval(() => this.#lookAgain(), LOOK_AGAIN_MS);
    const watchdog = new Watchdog(SILENCE_MS, controller);
    try {
      const headers = this.#lastId ? { "Last-Event-ID": this.#lastId } : {};
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
      this.reloader.mark(ALL);
    }
  }
  #take(frame) {
    const happened = parse(frame.data);
    if (happened === null) return;
    if (happened.type === "job.progress" && applyProgress(this.state, happened.data)) {
      this.reloader.mark(["curve"]);
      this.render();
    } else {
      this.reloader.mark(staleAfter(happened));
    }
  }
  #lookAgain() {
    if (this.state.waiting.length > 0) this.reloader.mark(["device", "jobs"]);
  }
  #connect(connection) {
    this.#failures = 0;
    this.state.connection = connection;
    this.state.lostSince = null;
    this.render();
  }
  /** The daemon may only be restarting: it counts as lost when it does not answer again. */
  #lose(error) {
    console.info("honed: the connection is lost;", error);
    if (error instanceof Refused) this.state.notice = error.message;
    this.#failures += 1;
    this.state.lostSince ??= /* @__PURE__ */ new Date();
    this.state.connection = this.#failures > 1 ? "lost" : "connecting";
    this.render();
  }
};

// src/question.ts
function confirmCancel(job) {
  const dialog = element("question", HTMLDialogElement);
  element("question-title", HTMLElement).textContent = `Cancel job ${job}?`;
  element("question-detail", HTMLElement).textContent = "It ends at its next step and makes no version. It cannot be resumed.";
  const yes = element("question-yes", HTMLButtonElement);
  yes.textContent = "Cancel the job";
  dialog.showModal();
  return new Promise((resolve) => {
    yes.onclick = () => {
      resolve(true);
      dialog.close();
    };
    element("question-no", HTMLButtonElement).onclick = () => dialog.close();
    dialog.onclose = () => {
      if (!dialog.open) resolve(false);
    };
  });
}

// src/format.ts
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
  const total = Math.max(0, Math.round(seconds));
  if (total < MINUTE_S) return `${total} s`;
  if (total < HOUR_S) return `${Math.floor(total / MINUTE_S)} min ${total % MINUTE_S} s`;
  if (total < DAY_S) return `${Math.floor(total / HOUR_S)} h ${Math.floor(total % HOUR_S / MINUTE_S)} min`;
  return `${Math.floor(total / DAY_S)} d ${Math.floor(total % DAY_S / HOUR_S)} h`;
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

// src/words.ts
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
function condition(blocker) {
  const known = CONDITIONS[blocker.condition];
  if (known !== void 0) return known;
  const words2 = blocker.condition.replaceAll("_", " ");
  return words2.charAt(0).toUpperCase() + words2.slice(1);
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

// src/views/parts.ts
var LOCAL = /* @__PURE__ */ new Set(["show", "forget", "dismiss"]);
function button(state, action, subject, label, about) {
  const name = `${action}:${subject}`;
  return h(
    "button",
    {
      type: "button",
      "data-action": action,
      "data-subject": subject,
      "data-key": name,
      "aria-label": about === "" ? null : `${label} ${about}`,
      disabled: state.pending.has(name) || state.connection === "lost" && !LOCAL.has(action)
    },
    label
  );
}
function badge(kind, text) {
  return h("span", { class: `badge ${kind}` }, text ?? STATES[kind]);
}
function blockers(blocked) {
  return blocked.map(
    (each) => h("li", { "data-key": each.condition }, h("strong", {}, condition(each)), ` ${each.detail}`)
  );
}
function when(time) {
  const then = new Date(time);
  return h("time", { datetime: time, title: then.toLocaleString() }, ago(then, /* @__PURE__ */ new Date()));
}
function jobButtons(state, job) {
  const about = `job ${job.id}`;
  const isPausedByHand = job.blocked_by.some((each) => each.condition === "paused_by_person");
  return [
    ...job.state === "running" ? [button(state, "pause", job.id, "Pause", about)] : [],
    ...job.state === "paused" && isPausedByHand ? [button(state, "resume", job.id, "Resume", about)] : [],
    button(state, "cancel", job.id, "Cancel", about)
  ];
}
function fact(name, value) {
  return h("div", { class: "fact", "data-key": name }, h("dt", {}, name), h("dd", {}, value));
}

// src/views/header.ts
var CONNECTIONS = {
  connecting: "connecting",
  live: "live",
  polling: "live, asked every 2 s",
  lost: "no answer"
};
function headerView(state) {
  return h(
    "header",
    { class: "top" },
    h("h1", {}, "Hone"),
    h(
      "p",
      { class: `connection ${state.connection}`, role: "status" },
      CONNECTIONS[state.connection]
    ),
    h(
      "nav",
      { "aria-label": "Page" },
      h("a", { href: "/docs" }, "API"),
      h(
        "button",
        { type: "button", class: "plain", "data-action": "forget", "data-subject": "" },
        "Forget token"
      )
    )
  );
}
function noticesView(state) {
  return h(
    "div",
    { class: "notices", "aria-live": "polite" },
    state.connection === "lost" && h(
      "div",
      { class: "notice bad", "data-key": "lost" },
      h("strong", {}, "The daemon does not answer."),
      ` What you see is from ${state.lostSince === null ? "before" : clock(state.lostSince)}. Trying again …`
    ),
    state.notice !== null && h(
      "div",
      { class: "notice bad", "data-key": "notice" },
      h("span", {}, state.notice),
      button(state, "dismiss", "", "Dismiss", "this message")
    )
  );
}
function deviceView(state) {
  const { device } = state;
  if (device === null) return null;
  const held = device.paused ? "All training is paused by hand." : "Training waits until the device can spare it.";
  const verdict = device.eligible ? "The device can spare training now." : held;
  return h(
    "section",
    { class: `verdict ${device.eligible ? "good" : "held"}`, "data-key": "device", "aria-label": "Device" },
    h(
      "div",
      { class: "verdict-head" },
      h("p", {}, verdict),
      h("p", { class: "since" }, `since ${clock(device.since)}`),
      device.paused ? button(state, "resume-all", "", "Resume all training", "") : button(state, "pause-all", "", "Pause all training", "")
    ),
    !device.eligible && h("ul", { class: "blockers" }, blockers(device.blocked_by))
  );
}

// src/scale.ts
function linear(from, to) {
  const span = from.high - from.low || 1;
  return (value) => to.low + (value - from.low) / span * (to.high - to.low);
}
function logarithmic(from, to) {
  const map = linear({ low: Math.log10(from.low), high: Math.log10(from.high) }, to);
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
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const found = [];
  for (let each = Math.ceil(range.low / step); each * step <= range.high; each += 1) {
    found.push(each * step);
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

// src/views/curve.ts
var HEIGHT = 240;
var MARGIN = { top: 26, right: 130, bottom: 30, left: 50 };
var NARROW = 520;
var LOG_FROM = 50;
var MOST_MARKERS = 60;
var LABEL_GAP = 17;
var EDGE = 30;
function curveView(job, points, width) {
  const series = [
    seriesOf("train", "training", "train_loss", points),
    seriesOf("validation", "validation", "validation_loss", points)
  ].filter((each) => each.dots.length > 0);
  const drawn = series.some((each) => each.dots.length > 1) ? series : [];
  return h(
    "figure",
    { class: "curve", "data-key": "curve" },
    drawn.length > 0 ? drawing(drawn, frameOf(job, drawn, width), summary(drawn)) : h("p", { class: "quiet" }, "The loss curve begins after the first steps.")
  );
}
function seriesOf(kind, name, key, points) {
  const dots = points.flatMap(({ step, values }) => {
    const value = values[key];
    return value !== void 0 && Number.isFinite(value) ? [{ step, value }] : [];
  });
  return { kind, name, dots };
}
function frameOf(job, series, width) {
  const dots = series.flatMap((each) => each.dots);
  const lastStep = Math.max(...dots.map((dot) => dot.step), job.progress.step, 1);
  const steps = { low: 0, high: lastStep };
  const right = width - (width < NARROW ? 14 : MARGIN.right);
  const x = linear(steps, { low: MARGIN.left, high: right });
  return { width, x, right, steps, ...lossAxis(dots.map((dot) => dot.value)) };
}
function lossAxis(values) {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  const pixels = { low: HEIGHT - MARGIN.bottom, high: MARGIN.top };
  if (low > 0 && high / low > LOG_FROM) {
    const range2 = { low: low / 1.2, high: high * 1.2 };
    const lossName = "loss, logarithmic";
    return { y: logarithmic(range2, pixels), lossTicks: powers(range2), lossName };
  }
  const range = lossRange(low, high);
  return { y: linear(range, pixels), lossTicks: ticks(range, 4), lossName: "loss" };
}
function lossRange(low, high) {
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  const isFar = low < 0 || low > high * 0.6;
  return { low: isFar ? low - margin : 0, high: high + margin };
}
function drawing(series, frame, text) {
  return s(
    "svg",
    {
      viewBox: `0 0 ${frame.width} ${HEIGHT}`,
      width: frame.width,
      height: HEIGHT,
      role: "img",
      "aria-label": text
    },
    grid(frame),
    series.map((each) => line(each, frame)),
    labels(series, frame)
  );
}
function grid({ width, x, y, right, steps, lossTicks, lossName }) {
  const bottom = HEIGHT - MARGIN.bottom;
  return s(
    "g",
    { class: "grid" },
    lossTicks.map((loss) => [
      s("line", { x1: MARGIN.left, x2: right, y1: y(loss), y2: y(loss) }),
      s("text", { x: MARGIN.left - 8, y: y(loss) + 4, "text-anchor": "end" }, decimal(loss))
    ]),
    ticks(steps, Math.max(2, Math.floor((right - MARGIN.left) / 110))).filter(Number.isInteger).map((step) => {
      const anchor = x(step) > width - EDGE ? "end" : "middle";
      return s("text", { x: x(step), y: bottom + 20, "text-anchor": anchor }, count(step));
    }),
    s("text", { x: 0, y: 12 }, lossName),
    s("text", { x: 0, y: bottom + 20 }, "step")
  );
}
function line({ kind, dots }, { x, y, width }) {
  const shown = thinned(dots, Math.max(60, Math.floor(width / 3)));
  const path = shown.map(({ step, value }) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
  const hasMarkers = kind === "validation" && shown.length <= MOST_MARKERS;
  return s(
    "g",
    { class: kind },
    s("polyline", { points: path.join(" ") }),
    hasMarkers && shown.map((dot) => s("circle", { cx: x(dot.step), cy: y(dot.value), r: 2.5 }))
  );
}
function labels(series, frame) {
  return frame.width < NARROW ? labelsAbove(series, frame) : labelsBeside(series, frame);
}
function labelsAbove(series, { width }) {
  return series.map(
    ({ kind, name }, index) => s(
      "text",
      { class: `${kind} label`, x: width - 14 - index * 76, y: 12, "text-anchor": "end" },
      name
    )
  );
}
function labelsBeside(series, { x, y }) {
  const ends = series.flatMap(({ kind, name, dots }) => {
    const last2 = dots[dots.length - 1];
    return last2 === void 0 ? [] : [{ kind, name, last: last2, at: y(last2.value) }];
  });
  ends.sort((a, b) => a.at - b.at);
  const [upper, lower] = ends;
  if (upper !== void 0 && lower !== void 0 && lower.at - upper.at < LABEL_GAP) {
    const middle = Math.min((upper.at + lower.at) / 2, HEIGHT - MARGIN.bottom - LABEL_GAP / 2);
    upper.at = middle - LABEL_GAP / 2;
    lower.at = middle + LABEL_GAP / 2;
  }
  const left = Math.max(...ends.map(({ last: last2 }) => x(last2.step))) + 8;
  return ends.map(
    ({ kind, name, last: last2, at }) => s("text", { class: `${kind} label`, x: left, y: at + 4 }, `${name} ${decimal(last2.value)}`)
  );
}
function summary(series) {
  const told = series.map(({ name, dots }) => {
    const [first, last2] = [dots[0]?.value ?? 0, dots[dots.length - 1]?.value ?? 0];
    return `${name} loss went from ${decimal(first)} to ${decimal(last2)}`;
  });
  return `Loss curve: ${told.join(", ")}.`;
}

// src/views/job.ts
var GOES_ON = /* @__PURE__ */ new Set(["running", "paused", "queued"]);
function jobView(state, width) {
  const job = shownJob(state);
  const heading = job === null || job.state !== "running" ? "Nothing is training" : "Training now";
  if (job === null) {
    return card(heading, h("p", { class: "quiet" }, "A job shows here with its loss curve."));
  }
  const isOther = state.running.length > 0 && job.state !== "running";
  const points = pointsOf(state, job);
  return card(
    isOther ? "An earlier job" : heading,
    h(
      "div",
      { class: "job-head" },
      h("p", { class: "job-title" }, h("strong", {}, job.model), ` job ${job.id}`),
      badge(job.state),
      h("p", { class: "quiet" }, beginning(job)),
      GOES_ON.has(job.state) && h("div", { class: "buttons" }, jobButtons(state, job))
    ),
    GOES_ON.has(job.state) && progressView(job),
    job.blocked_by.length > 0 && h("ul", { class: "blockers" }, blockers(job.blocked_by)),
    job.error !== null && h("p", { class: "problem" }, job.error.detail),
    h("dl", { class: "facts" }, facts(job, points)),
    curveView(job, points, width)
  );
}
function card(heading, ...children) {
  return h(
    "section",
    { class: "card now", "aria-labelledby": "now" },
    h("h2", { id: "now" }, heading),
    children
  );
}
function pointsOf(state, job) {
  const curve = state.curves.get(job.id);
  return curve === void 0 ? [] : [...curve.complete, ...curve.tail];
}
function beginning(job) {
  const by = job.trigger === "request" ? "asked for" : `by ${job.trigger},`;
  const parts = [`${by} `, when(job.created_at)];
  if (job.ignore_policy) parts.push(", in spite of the policy");
  if (job.finished_at !== null) parts.push(", ended ", when(job.finished_at));
  return parts;
}
function progressView(job) {
  const { step, total_steps: total, epoch, epochs, eta_seconds: eta } = job.progress;
  const steps = total === null ? plural(step, "step") : `step ${count(step)} of ${count(total)}`;
  const turn = epochs === null ? `epoch ${count(epoch)}` : `epoch ${count(epoch)} of ${count(epochs)}`;
  return h(
    "div",
    { class: "progress" },
    h("progress", { max: total ?? 1, value: barValue(job), "aria-label": `Progress of job ${job.id}` }),
    h("p", {}, step > 0 || total !== null ? `${steps}, ${turn}` : "no step yet"),
    h("p", {}, eta !== null && job.state === "running" ? `about ${duration(eta)} left` : null)
  );
}
function barValue(job) {
  const { step, total_steps: total } = job.progress;
  if (total !== null) return step;
  return job.state === "running" ? null : 0;
}
function facts(job, points) {
  const { samples_per_second: speed } = job.progress;
  const train = last(points, "train_loss") ?? job.metrics.train_loss;
  const loss = last(points, "validation_loss");
  const accuracy = last(points, "validation_accuracy");
  return [
    train !== null && fact("training loss", decimal(train)),
    loss !== null && fact("validation loss", decimal(loss)),
    accuracy !== null && fact("validation accuracy", percent(accuracy)),
    speed !== null && speed > 0 && fact("samples a second", count(speed)),
    job.version !== null && fact("made", `version ${job.version}`),
    job.restarts > 0 && fact("restarts", count(job.restarts))
  ];
}
function last(points, key) {
  for (let index = points.length - 1; index >= 0; index -= 1) {
    const value = points[index]?.values[key];
    if (value !== void 0) return value;
  }
  return null;
}

// src/views/jobs.ts
function waitingView(state) {
  if (state.waiting.length === 0) return null;
  return list(
    "Waiting",
    state.waiting.map(
      (job) => row(
        state,
        job,
        h("div", { class: "buttons" }, jobButtons(state, job)),
        job.blocked_by.length > 0 ? h("ul", { class: "blockers" }, blockers(job.blocked_by)) : h("p", { class: "quiet" }, "Its turn comes next.")
      )
    )
  );
}
function endedView(state) {
  if (state.ended.length === 0) return null;
  return list(
    "Last jobs",
    state.ended.map(
      (job) => row(
        state,
        job,
        h("p", { class: "quiet" }, job.finished_at === null ? null : when(job.finished_at)),
        outcome(job)
      )
    )
  );
}
function list(title, rows) {
  const id = title.toLowerCase().replaceAll(" ", "-");
  return h(
    "section",
    { class: "card jobs", "data-key": id, "aria-labelledby": id },
    h("h2", { id }, title),
    h("ul", { class: "rows" }, rows)
  );
}
function row(state, job, aside, below) {
  const isShown = shownJob(state)?.id === job.id;
  const show = button(state, "show", job.id, `${job.model} job ${job.id}`, "with its curve");
  show.classList.add("link");
  return h(
    "li",
    { "data-key": `job-${job.id}`, class: isShown ? "shown" : null },
    h("div", { class: "row-head" }, show, badge(job.state), aside),
    below
  );
}
function outcome(job) {
  if (job.error !== null) return h("p", { class: "problem" }, job.error.detail);
  return job.version === null ? null : h("p", { class: "quiet" }, `made version ${job.version}`);
}

// src/views/models.ts
function modelsView(state) {
  const models = [...state.models?.values() ?? []];
  return h(
    "section",
    { class: "models", "aria-labelledby": "models" },
    h("h2", { id: "models" }, "Models"),
    models.length > 0 ? models.map((each) => modelView(state, each)) : emptyView()
  );
}
function emptyView() {
  return h(
    "div",
    { class: "card empty", "data-key": "empty" },
    h("p", {}, "No model yet. Register a forward ONNX file, then send it samples:"),
    h("pre", {}, h("code", {}, "honed models add base.onnx --name digits --loss cross_entropy")),
    h("p", { class: "quiet" }, "or POST /v1/models from any app; it shows here at once.")
  );
}
function modelView(state, { model, newest }) {
  const title = `model-${model.name}`;
  return h(
    "article",
    { class: "card model", "data-key": title, "aria-labelledby": title },
    h(
      "div",
      { class: "model-head" },
      h("h3", { id: title }, model.name),
      button(state, "train", model.name, "Train", model.name)
    ),
    h("p", { class: "samples" }, samples(model)),
    newest === null ? null : versionView(model, newest)
  );
}
function samples({ samples: { train, validation, unlabelled, base } }) {
  if (train + validation + unlabelled + base === 0) return ["no samples yet"];
  const one = (value, name) => h("span", { "data-key": name }, h("strong", {}, count(value)), ` ${name}`);
  const ordinary = [one(train, "train"), one(validation, "validation")];
  const known = base === 0 ? [] : [one(base, "base set")];
  return [...ordinary, ...known, one(unlabelled, "unlabelled")];
}
function versionView(model, newest) {
  const judged = measure(newest.metrics, newest.baseline, model.gate.metric);
  const isLatest = model.latest_version === newest.version;
  return h(
    "div",
    { class: "version" },
    h(
      "p",
      { class: "version-head" },
      h("strong", {}, `Version ${newest.version}`),
      newest.job_id !== null && promotion(newest),
      h("span", { class: "quiet" }, when(newest.created_at))
    ),
    judged === null ? null : measureView(judged),
    newest.job_id === null ? h("p", { class: "quiet" }, "The model as it was registered.") : h("p", { class: "reason" }, newest.reason),
    !isLatest && model.latest_version !== null && h("p", { class: "quiet" }, `Apps fetch version ${model.latest_version}.`),
    model.held_since !== null && h("p", { class: "quiet" }, "Held by hand ", when(model.held_since), ": jobs do not change it.")
  );
}
function promotion({ promoted }) {
  return promoted ? badge("promoted", "promoted") : badge("held", "not promoted");
}
function measureView({ name, isShare, after, before }) {
  const show = isShare ? percent : decimal;
  const isBetter = before === null || (isShare ? after >= before : after <= before);
  return h(
    "div",
    { class: "measure" },
    h("p", {}, h("span", { class: "value" }, show(after)), ` validation ${name}`),
    before !== null && h(
      "p",
      { class: isBetter ? "better" : "worse" },
      `${after >= before ? "up" : "down"} from its baseline’s ${show(before)}`
    ),
    isShare && bar(after, before)
  );
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

// src/views/page.ts
function pageView(state, curveWidth) {
  return h(
    "div",
    { id: "page", class: state.connection === "lost" ? "stale" : null },
    headerView(state),
    noticesView(state),
    state.models === null ? h("main", { class: "loading" }, h("p", { class: "quiet" }, "Asking the daemon …")) : h(
      "main",
      {},
      deviceView(state),
      jobView(state, curveWidth),
      modelsView(state),
      h("div", { class: "side", "data-key": "side" }, waitingView(state), endedView(state))
    )
  );
}

// src/views/token.ts
function tokenView(problem) {
  return h(
    "main",
    { class: "gate" },
    h("h1", {}, "Hone"),
    h("p", {}, "See what this device trains. Paste the admin token to sign in."),
    h(
      "form",
      { id: "token-form", autocomplete: "off" },
      h("label", { for: "token" }, "Admin token"),
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
      "It is in the file ",
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
var WIDEST_CURVE = 1100;
var root = element("page", HTMLElement);
function askForToken(problem) {
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
    askForToken("The daemon does not know this token.");
  } finally {
    session.close();
  }
}
var Session = class {
  #state = emptyState();
  #ended = new AbortController();
  #api;
  #live;
  #isDue = false;
  constructor(token) {
    this.#api = new Api(token);
    this.#live = new Live(this.#api, this.#state, () => this.#draw());
  }
  async run() {
    const { signal } = this.#ended;
    root.addEventListener("click", (event) => this.#click(event), { signal });
    window.addEventListener("resize", () => this.#draw(), { signal });
    const redraw = setInterval(() => this.#draw(), REDRAW_MS);
    signal.addEventListener("abort", () => clearInterval(redraw));
    this.#draw();
    return await this.#live.run();
  }
  close() {
    this.#ended.abort();
  }
  /** At most once for each frame of the screen. */
  #draw() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      if (!this.#ended.signal.aborted) patch(root, pageView(this.#state, this.#curveWidth()));
    });
  }
  #curveWidth() {
    const card2 = root.querySelector(".now");
    const room = card2 === null ? 600 : card2.clientWidth - 2 * parseFloat(getComputedStyle(card2).paddingLeft);
    return Math.max(240, Math.min(room, WIDEST_CURVE));
  }
  #click(event) {
    const button2 = event.target instanceof Element ? event.target.closest("[data-action]") : null;
    if (button2 === null) return;
    const { action, subject = "" } = button2.dataset;
    void this.#do(action, subject);
  }
  async #do(action, subject) {
    if (action === "forget") {
      sessionStorage.removeItem(TOKEN_KEY);
      location.reload();
    } else if (action === "dismiss") {
      this.#state.notice = null;
    } else if (action === "show") {
      this.#state.chosen = Number(subject);
      this.#live.reloader.mark(["curve"]);
    } else if (action !== "cancel" || await confirmCancel(subject)) {
      const done = act(
        this.#api,
        this.#state,
        action,
        subject,
        (parts) => this.#live.reloader.reload(parts)
      );
      this.#draw();
      await done;
    }
    this.#draw();
  }
};
void open();
