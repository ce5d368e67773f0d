// src/daemon/api.ts
var TOKEN_KEY = "honed.token";
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
  /** Goes on with a token's new secret if the token is the caller's: then the former secret is refused. */
  async renew(path, secret) {
    const response = await this.#send(path, {}).catch(() => null);
    if (response?.status !== 401) return;
    this.#token = secret;
    sessionStorage.setItem(TOKEN_KEY, secret);
  }
  async get(path) {
    return await this.#answer("GET", path);
  }
  /** What the daemon has to compute first, however long that takes. */
  async patient(path, signal) {
    return await answered(await this.#send(path, { signal }));
  }
  /** isLong: the daemon may work on it for long. */
  async post(path, body, isLong = false) {
    return await this.#answer("POST", path, body, isLong);
  }
  /** A form is sent however long that takes. */
  async put(path, body) {
    return await this.#answer("PUT", path, body);
  }
  async patch(path, body) {
    return await this.#answer("PATCH", path, body);
  }
  /** isLong: as for `post`. */
  async remove(path, isLong = false) {
    return await this.#answer("DELETE", path, void 0, isLong);
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
    return await whole(response.blob());
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
  /** The body of a stream that lasts, null where the daemon has no such route, or not for this token. */
  async stream(path, headers, signal) {
    const response = await this.#send(path, { headers, signal });
    if ([403, 404].includes(response.status)) return null;
    if (!response.ok || response.body === null) throw await refusal(response);
    return response.body;
  }
  async #answer(method, path, body, isLong = false) {
    const isForm = body instanceof FormData;
    const request = { method, signal: isLong || isForm ? null : AbortSignal.timeout(TIMEOUT_MS) };
    if (isForm) {
      request.body = body;
    } else if (body !== void 0) {
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
      throw new Unreachable("the daemon did not respond", { cause: error });
    }
  }
};
function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null);
  if (given.length === 0) return path;
  const text3 = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return `${path}${path.includes("?") ? "&" : "?"}${text3}`;
}
function modelPath(name, rest = "") {
  return `/v1/models/${encodeURIComponent(name)}${rest}`;
}
async function answered(response) {
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? null : await whole(response.json());
}
async function whole(body) {
  try {
    return await body;
  } catch (error) {
    throw new Unreachable("the response was cut off", { cause: error });
  }
}
async function refusal(response) {
  const told5 = await response.json().catch(() => null);
  const problem = typeof told5 === "object" && told5 !== null ? told5 : {};
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
  /** What the bytes of an address are read as, which never change. key: where another reading has its own. */
  readBytes(path, read2, key = path) {
    return this.read(key, async (api, _, signal) => await read2(await api.bytes(path, signal)), true);
  }
  /** What has gone wrong with what the page needs. */
  problems() {
    const wrong = [...this.#entries.values()].flatMap(({ isWanted, problem }) => isWanted && problem ? [problem] : []);
    return [...new Set(wrong.flatMap(({ message, faults: faults2 }) => faults2.length > 0 ? faults2.map(({ pointer, detail: detail2 }) => `${pointer}: ${detail2}`) : [message]))];
  }
  /** Whether the daemon has refused to tell it, rather than having none. */
  isRefused(key) {
    const { problem, value } = this.#entries.get(key) ?? {};
    return problem != null && value == null;
  }
  /** What is known, without asking. */
  peek(key) {
    return this.#entries.get(key)?.value;
  }
  /** Changes what is known without asking. */
  update(key, change3) {
    const value = this.#entries.get(key)?.value;
    if (value === void 0 || value === null) return false;
    change3(value);
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
      if (entry.problem?.status === 403) continue;
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
  /** What failed for a reason that may pass is loaded again. */
  retry() {
    for (const entry of this.#entries.values()) entry.isStale ||= isPassing(entry.problem);
    this.#kick();
  }
  /** What is known of the addresses at or below this one, even if it was never to change. */
  forget(place) {
    for (const key of this.#entries.keys()) if (isBelow(key, place)) this.#entries.delete(key);
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
      entry.problem = error.status === 404 ? null : error;
      entry.value = isPassing(error) ? entry.value ?? null : null;
    }
    entry.loadedAt = performance.now();
    this.onLoaded();
  }
};
function isPassing(problem) {
  return problem !== null && (problem.status >= 500 || problem.status === 429);
}
function isBelow(key, place) {
  return `${key}?` === place || key.startsWith(place) && (/[/?]$/.test(place) || /^([/?]|$)/.test(key.slice(place.length)));
}

// src/app/place.ts
var SCROLLED_WITHIN_MS = 1e4;
function leftOf() {
  return history.state ?? {};
}
function leave({ drafts }) {
  const pages = [...drafts].flatMap(([name, draft]) => typeof draft.pages === "number" ? [[name, draft.pages]] : []);
  history.replaceState({ scrolled: window.scrollY, pages: Object.fromEntries(pages) }, "");
}
var Scrolling = class {
  #awaited = 0;
  #until = 0;
  constructor(signal) {
    for (const moved of ["wheel", "keydown", "pointerdown"]) {
      window.addEventListener(moved, () => this.#awaited = 0, { signal, passive: true });
    }
  }
  /** The page is another one. */
  begin() {
    this.#awaited = leftOf().scrolled ?? 0;
    this.#until = performance.now() + SCROLLED_WITHIN_MS;
  }
  /** The page was drawn. */
  goOn() {
    if (performance.now() > this.#until) this.#awaited = 0;
    if (this.#awaited === 0 || document.documentElement.scrollHeight < this.#awaited + window.innerHeight) return;
    window.scrollTo(0, this.#awaited);
    this.#awaited = 0;
  }
};

// src/app/route.ts
var HOME = "/dashboard";
function routeOf({ pathname, search: search2 }) {
  const rest = pathname.startsWith(HOME) ? pathname.slice(HOME.length) : "";
  return { parts: rest.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(search2) };
}
function to(parts, query = {}) {
  const path = [HOME, ...parts.map((part) => encodeURIComponent(part))].join("/");
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== "");
  const text3 = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return given.length === 0 ? path : `${path}?${text3}`;
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
  /** The same in the card with this heading, which is known once it is drawn. */
  widthOf(id) {
    const card = document.getElementById(id)?.closest(".card");
    if (!card) this.draw();
    return card ? Math.max(240, card.clientWidth - CARD_PADDING) : this.width;
  }
  /** To another page of the console. isSame: the same page, with another filter or order. */
  go(href, { isSame = false } = {}) {
    if (!isSame) {
      leave(this.state);
      history.pushState(null, "", href);
    } else history.replaceState(null, "", href);
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
    const pages = leftOf().pages?.[name];
    const begun2 = { ...initial(), ...pages === void 0 ? {} : { pages } };
    this.state.drafts.set(name, begun2);
    return begun2;
  }
  toast(said2) {
    const { text: text3, link } = typeof said2 === "string" ? { text: said2, link: null } : said2;
    const toast = { id: ++this.#toasts, text: text3, link };
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
  async act(name, stale2, run) {
    const { pending, results } = this.state;
    if (pending.has(name)) return false;
    pending.add(name);
    results.delete(name);
    this.draw();
    try {
      const said2 = await run();
      await this.resources.refresh(stale2);
      if (said2 !== null) this.toast(said2);
      return true;
    } catch (error) {
      if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
      results.set(name, resultOf(error));
      await this.resources.refresh(stale2);
      return false;
    } finally {
      pending.delete(name);
      this.draw();
    }
  }
};
function resultOf(error) {
  if (error instanceof Refused) return { text: error.message, faults: error.faults };
  const isLate = error.cause instanceof DOMException && error.cause.name === "TimeoutError";
  return { text: `${error.message}. ${isLate ? "It may still carry this out: look before you try again." : "Try again."}`, faults: [] };
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
  "onlostpointercapture",
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
  const found2 = document.getElementById(id);
  if (!(found2 instanceof kind)) throw new Error(`the page has no ${kind.name} with id ${id}`);
  return found2;
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
  const found2 = key === null ? cursor : keyed.get(key) ?? null;
  const fits = found2 !== null && found2.nodeName === next.nodeName && keyOf(found2) === key;
  return fits ? found2 : null;
}
function keyOf(node) {
  return node instanceof Element ? node.getAttribute("data-key") : null;
}
function patchAttributes(present, wanted) {
  const isField = present instanceof HTMLInputElement;
  const isLeft = isField && present.type === "search" && present !== document.activeElement;
  const isUntouched = isField && (isLeft || present.value === present.getAttribute("value"));
  const isUnpressed = isField && present.checked === present.hasAttribute("checked");
  const handlers = present;
  for (const name of HANDLERS) handlers[name] = wanted[name];
  for (const name of present.getAttributeNames()) {
    const isKept = name === "open" || name === "tabindex" && present === document.activeElement;
    if (!wanted.hasAttribute(name) && !isKept) present.removeAttribute(name);
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (present.getAttribute(name) === value) continue;
    present.setAttribute(name, value);
    if (name === "value" && isUntouched) present.value = value;
  }
  if (isUnpressed) present.checked = present.hasAttribute("checked");
}

// src/page/format.ts
var MINUTE_S = 60;
var HOUR_S = 3600;
var DAY_S = 86400;
var MOST_DIGITS = 9;
var MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
function count(value) {
  return grouped(Math.round(value));
}
function grouped(value) {
  const [whole2 = "", fraction] = String(value).split(".");
  const thousands = whole2.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === void 0 ? thousands : `${thousands}.${fraction}`;
}
function decimal(value, more = 0) {
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(3 + more));
  return size !== 0 && (size < 1e-3 || size >= 1e5) ? rounded.toExponential() : grouped(rounded);
}
function percent(share, more = 0) {
  return `${(share * 100).toFixed(1 + more)} %`;
}
function distinct(values, show, more = 0) {
  const texts2 = values.map((value) => show(value, more));
  return more === MOST_DIGITS || new Set(texts2).size === values.length ? texts2 : distinct(values, show, more + 1);
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
  return `${day(then)} ${then.getFullYear()}`;
}
function clock(moment2) {
  const [then, now] = [new Date(moment2), /* @__PURE__ */ new Date()];
  const date = then.getFullYear() === now.getFullYear() ? day(then) : `${day(then)} ${then.getFullYear()}`;
  const [hour, minute] = [then.getHours(), then.getMinutes()].map((part) => String(part).padStart(2, "0"));
  return `${then.toDateString() === now.toDateString() ? "" : `${date}, `}${hour}:${minute}`;
}
function moment(then) {
  return then.toString().slice(0, 24);
}
function day(then) {
  return `${then.getDate()} ${MONTHS[then.getMonth()] ?? ""}`;
}
function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}
var UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
function bytes(value) {
  const power2 = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), UNITS.length - 1);
  return `${decimal(value / 1024 ** power2)} ${UNITS[power2]}`;
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
  feed(text3) {
    const frames = [];
    this.#rest += text3;
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
  constructor(milliseconds, controller, first) {
    this.milliseconds = milliseconds;
    this.controller = controller;
    this.#wait(first);
  }
  milliseconds;
  controller;
  #timer;
  alive() {
    this.stop();
    this.#wait(this.milliseconds);
  }
  #wait(milliseconds) {
    this.#timer = setTimeout(() => this.controller.abort(new DOMException("no sign of life", "TimeoutError")), milliseconds);
  }
  stop() {
    clearTimeout(this.#timer);
  }
};

// src/daemon/tasks.ts
var TASKS = {
  cross_entropy: { title: "cross entropy: one class per sample or position", hasClasses: true, namesSeveral: false, hasDoubt: true, continuesTexts: false, byClass: ["recall", "precision", "iou"], metrics: ["accuracy", "balanced_accuracy", "macro_f1", "mean_iou", "loss"] },
  mse: { title: "mean squared error: numbers", hasClasses: false, namesSeveral: false, hasDoubt: false, continuesTexts: false, byClass: ["mae", "rmse", "r2"], metrics: ["mae", "rmse", "r2", "loss"] },
  bce_with_logits: { title: "binary cross entropy: several yes/no labels", hasClasses: false, namesSeveral: false, hasDoubt: true, continuesTexts: false, byClass: [], metrics: ["accuracy", "loss"] },
  l1: { title: "absolute error: numbers", hasClasses: false, namesSeveral: false, hasDoubt: false, continuesTexts: false, byClass: ["mae", "rmse", "r2"], metrics: ["mae", "rmse", "r2", "loss"] },
  huber: { title: "Huber: numbers, with outliers", hasClasses: false, namesSeveral: false, hasDoubt: false, continuesTexts: false, byClass: ["mae", "rmse", "r2"], metrics: ["mae", "rmse", "r2", "loss"] },
  multilabel: { title: "multilabel: any of several named labels", hasClasses: false, namesSeveral: true, hasDoubt: true, continuesTexts: false, byClass: ["f1", "precision", "recall"], metrics: ["micro_f1", "macro_f1", "accuracy", "loss"] },
  supcon: { title: "supervised contrastive: embeddings, near for equal labels", hasClasses: false, namesSeveral: false, hasDoubt: false, continuesTexts: false, byClass: [], metrics: ["recall_at_1", "loss"] },
  causal_lm: { title: "next token: a text is its own label", hasClasses: false, namesSeveral: false, hasDoubt: false, continuesTexts: true, byClass: [], metrics: ["perplexity", "top_1_token_accuracy", "top_3_token_accuracy", "top_5_token_accuracy", "loss"] },
  masked_lm: { title: "masked tokens: a text is its own label", hasClasses: false, namesSeveral: false, hasDoubt: false, continuesTexts: false, byClass: [], metrics: ["perplexity", "top_1_token_accuracy", "top_3_token_accuracy", "top_5_token_accuracy", "loss"] },
  token_classification: { title: "token classification: spans of a text, such as names", hasClasses: false, namesSeveral: false, hasDoubt: true, continuesTexts: false, byClass: [], metrics: ["span_f1", "token_accuracy", "loss"] },
  detection: { title: "detection: boxes on photos, with a class each", hasClasses: false, namesSeveral: false, hasDoubt: true, continuesTexts: false, byClass: ["ap"], metrics: ["map_50", "map", "loss"] },
  reconstruction: { title: "reconstruction: anomalies, by a model that gives its input back", hasClasses: false, namesSeveral: false, hasDoubt: true, continuesTexts: false, byClass: [], metrics: ["auroc", "loss"] },
  one_class: { title: "one class: anomalies, by the distance from a prototype", hasClasses: false, namesSeveral: false, hasDoubt: true, continuesTexts: false, byClass: [], metrics: ["auroc", "loss"] }
};
var METRICS = {
  recall: { higherIsBetter: true },
  precision: { higherIsBetter: true },
  iou: { higherIsBetter: true },
  accuracy: { higherIsBetter: true },
  balanced_accuracy: { higherIsBetter: true },
  macro_f1: { higherIsBetter: true },
  mean_iou: { higherIsBetter: true },
  loss: { higherIsBetter: false },
  mae: { higherIsBetter: false },
  rmse: { higherIsBetter: false },
  r2: { higherIsBetter: true },
  f1: { higherIsBetter: true },
  micro_f1: { higherIsBetter: true },
  recall_at_1: { higherIsBetter: true },
  perplexity: { higherIsBetter: false },
  top_1_token_accuracy: { higherIsBetter: true },
  top_3_token_accuracy: { higherIsBetter: true },
  top_5_token_accuracy: { higherIsBetter: true },
  span_f1: { higherIsBetter: true },
  token_accuracy: { higherIsBetter: true },
  ap: { higherIsBetter: true },
  map_50: { higherIsBetter: true },
  map: { higherIsBetter: true },
  auroc: { higherIsBetter: true }
};
var METRICS_OF_OWN_LOSS = ["loss"];
function taskOf(loss) {
  return typeof loss === "string" ? TASKS[loss] : void 0;
}
function metricsOf(loss) {
  return taskOf(loss)?.metrics ?? METRICS_OF_OWN_LOSS;
}

// src/app/boxes.ts
var LEAST_OVERLAP = 0.5;
var LEAST_SHOWN = 0.3;
function takesBoxes(model2) {
  return model2.target.box_classes !== null;
}
function boxesOf(label2) {
  return typeof label2 === "object" && label2 !== null && "boxes" in label2 && Array.isArray(label2.boxes) ? label2.boxes : null;
}
function boxClasses({ target: { classes, box_classes: count2 } }) {
  return classes ?? Array.from({ length: count2 ?? 0 }, (_, index) => index);
}
function isLikely({ probability }) {
  return (probability ?? 1) >= LEAST_SHOWN;
}
function without(boxes, others) {
  return boxes.filter(({ box, label: label2 }) => !others.some((other) => other.label === label2 && overlap(box, other.box) >= LEAST_OVERLAP));
}
function overlap([x, y, width, height], [ox, oy, otherWidth, otherHeight]) {
  const across = Math.max(0, Math.min(x + width, ox + otherWidth) - Math.max(x, ox));
  const down = Math.max(0, Math.min(y + height, oy + otherHeight) - Math.max(y, oy));
  return across * down / (width * height + otherWidth * otherHeight - across * down);
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
  const found2 = /* @__PURE__ */ new Map();
  for (const { name, method, start, size } of entries(view)) {
    const packed = new Uint8Array(view.buffer, start, size);
    const content2 = method === 0 ? packed.slice() : await inflated(packed);
    const tensor = readNpy(new DataView(content2.buffer));
    if (tensor !== null) found2.set(name.replace(/\.npy$/, ""), tensor);
  }
  return found2;
}
function entries(view) {
  let end = view.byteLength - 22;
  while (end > 0 && view.getUint32(end, true) !== END) end -= 1;
  const found2 = [];
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0 && view.getUint32(at, true) === ENTRY; left -= 1) {
    const nameLength = view.getUint16(at + 28, true);
    const local = view.getUint32(at + 42, true);
    const name = new TextDecoder().decode(new Uint8Array(view.buffer, at + 46, nameLength));
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    found2.push({ name, method: view.getUint16(at + 10, true), start, size: view.getUint32(at + 20, true) });
    at += 46 + nameLength + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return found2;
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

// src/app/pictures.ts
var SMALL_PICTURE_BYTES = 2 ** 20;
var PICTURE_PIXELS = 256;
var LEAST_SIDE = 4;
var SOUND_HZ = 44100;
var BETWEEN_TEXTS = "";
function fileKind({ preprocess }) {
  const known = preprocess.map(({ kind }) => kind);
  return ["image", "audio", "text"].find((kind) => known.includes(kind)) ?? null;
}
function texts(app, name, id) {
  const path = modelPath(name, `/samples/${id}/content`);
  return app.resources.readBytes(path, async (file) => (await file.text()).split(BETWEEN_TEXTS));
}
var own = /* @__PURE__ */ new WeakMap();
function ownSize(shown2) {
  return own.get(shown2) ?? shown2;
}
function picture(app, name, { id, size_bytes: size }, isMeasured = false) {
  const isSmall = isMeasured || size > 0 && size <= SMALL_PICTURE_BYTES;
  const path = modelPath(name, `/samples/${id}/${isSmall ? "content" : `thumbnail?size=${PICTURE_PIXELS}`}`);
  return app.resources.readBytes(path, async (file) => {
    const whole2 = await createImageBitmap(file).catch(broken);
    if (whole2 === null || whole2.height <= PICTURE_PIXELS) return whole2;
    const shown2 = await createImageBitmap(whole2, { resizeHeight: PICTURE_PIXELS, resizeQuality: "medium" });
    own.set(shown2, { width: whole2.width, height: whole2.height });
    return shown2;
  });
}
function photo(app, name, id) {
  const path = modelPath(name, `/samples/${id}/content`);
  return app.resources.readBytes(path, async (file) => await createImageBitmap(file).catch(broken), `${path}?whole`);
}
function broken(error) {
  if (error instanceof DOMException && ["InvalidStateError", "EncodingError"].includes(error.name)) return null;
  throw error;
}
function sound(app, name, id) {
  const path = modelPath(name, `/samples/${id}/content`);
  return app.resources.readBytes(path, async (file) => await new OfflineAudioContext(1, 1, SOUND_HZ).decodeAudioData(await file.arrayBuffer()).catch(broken));
}
var player = null;
function play(app, { name }, id) {
  const buffer = app.resources.peek(modelPath(name, `/samples/${id}/content`));
  if (!buffer) return;
  void player?.close();
  player = new AudioContext();
  const source = new AudioBufferSourceNode(player, { buffer });
  source.connect(player.destination);
  source.start();
}
function content(app, name, id) {
  const path = modelPath(name, `/samples/${id}/content`);
  return app.resources.readBytes(path, readNpz);
}
function rasterOf(shape) {
  if (shape.length !== 3) return null;
  const [first = 0, second = 0, third = 0] = shape;
  const isColour = (channels) => channels === 1 || channels === 3;
  if (isColour(first) && Math.min(second, third) >= LEAST_SIDE) return { width: third, height: second, channels: first, isPlanar: true };
  if (isColour(third) && Math.min(first, second) >= LEAST_SIDE) return { width: second, height: first, channels: third, isPlanar: false };
  return null;
}
function showsPictures(model2) {
  const [only, ...others] = model2.inputs;
  const isPicture = only !== void 0 && others.length === 0 && rasterOf(only.shape) !== null;
  return fileKind(model2) === "image" || fileKind(model2) === null && isPicture;
}
var drawn = /* @__PURE__ */ new WeakMap();
function pixelsOf(tensor, shape) {
  const known = drawn.get(tensor);
  if (known !== void 0) return known;
  const raster = rasterOf(shape);
  if (raster === null) return null;
  const { width, height, channels, isPlanar } = raster;
  const [low, high] = rangeOf(tensor.values);
  const image = new ImageData(width, height);
  for (let at = 0; at < width * height; at += 1) {
    for (let channel = 0; channel < 3; channel += 1) {
      const of = Math.min(channel, channels - 1);
      const value = tensor.values[isPlanar ? of * width * height + at : at * channels + of] ?? low;
      image.data[at * 4 + channel] = Math.round(255 * (value - low) / (high - low));
    }
    image.data[at * 4 + 3] = 255;
  }
  drawn.set(tensor, image);
  return image;
}
function rangeOf(values) {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  if (low >= 0 && high <= 1) return [0, 1];
  if (low >= 0 && high <= 255) return [0, 255];
  return [low, high > low ? high : low + 1];
}

// src/app/masks.ts
var COLOURS = [
  [230, 159, 0],
  [86, 180, 233],
  [0, 158, 115],
  [240, 228, 66],
  [0, 114, 178],
  [213, 94, 0],
  [204, 121, 167]
];
var [GROUND, WHITE] = [[0, 0, 0], [255, 255, 255]];
var STRENGTH = 150;
var UNCOUNTED = 255;
var SCALES = { 1: 255, 2: 85, 4: 17 };
var PALETTE = 3;
var [CHUNKS, DEPTH, KIND] = [8, 24, 25];
function isMask(label2) {
  return typeof label2 === "object" && label2 !== null && !Array.isArray(label2) && "size" in label2;
}
function takesMasks(model2) {
  const { num_classes: classes, shape } = model2.target;
  return fileKind(model2) === "image" && classes !== null && shape.length === 2;
}
function mask(app, name, id, { bytes: bytes2 }) {
  const path = maskPath(name, id);
  return app.resources.readBytes(path, decoded2, `${path}?bytes=${bytes2}`) ?? void 0;
}
function maskPath(name, id) {
  return modelPath(name, `/samples/${id}/mask`);
}
async function decoded2(png) {
  const bytes2 = new DataView(await png.arrayBuffer());
  const picture2 = await createImageBitmap(png, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const painted2 = pixelsOf2(picture2);
  const places = bytes2.getUint8(KIND) === PALETTE ? paletteOf(bytes2) : null;
  const scale = SCALES[bytes2.getUint8(DEPTH)] ?? 1;
  const { data } = painted2;
  const values = new Uint8Array(data.length / 4).map((_, at) => {
    const [red, green, blue] = [data[4 * at] ?? 0, data[4 * at + 1] ?? 0, data[4 * at + 2] ?? 0];
    return places === null ? red / scale : places.get(colourOf(red, green, blue)) ?? 0;
  });
  values.forEach((value, at) => data.set(PAINTS[value] ?? [], 4 * at));
  return { values, painted: painted2 };
}
function emptyMask({ width, height }) {
  return { values: new Uint8Array(width * height), painted: new ImageData(width, height) };
}
function copied({ values, painted: painted2 }) {
  return { values: values.slice(), painted: new ImageData(painted2.data.slice(), painted2.width) };
}
function paintLine({ values, painted: painted2 }, from, to2, radius, value) {
  const { width, height } = painted2;
  const edges = (one, other, size) => [
    Math.max(0, Math.floor(Math.min(one, other) - radius)),
    Math.min(size, Math.ceil(Math.max(one, other) + radius) + 1)
  ];
  const [left, right] = edges(from.x, to2.x, width);
  const [top, bottom] = edges(from.y, to2.y, height);
  const [dx, dy] = [to2.x - from.x, to2.y - from.y];
  for (let y = top; y < bottom; y += 1) {
    for (let x = left; x < right; x += 1) {
      const [px, py] = [x + 0.5 - from.x, y + 0.5 - from.y];
      const along = Math.min(1, Math.max(0, (px * dx + py * dy) / (dx * dx + dy * dy || 1)));
      if (Math.hypot(px - along * dx, py - along * dy) > radius) continue;
      values[y * width + x] = value;
      painted2.data.set(PAINTS[value] ?? [], 4 * (y * width + x));
    }
  }
  return [left, top, right - left, bottom - top];
}
function classColour(index) {
  return index > 0 ? COLOURS[(index - 1) % COLOURS.length] ?? GROUND : GROUND;
}
function paintText(index) {
  const [red, green, blue] = index === UNCOUNTED ? WHITE : classColour(index);
  return `rgb(${red} ${green} ${blue})`;
}
var PAINTS = Array.from({ length: 256 }, (_, value) => [...value === UNCOUNTED ? WHITE : classColour(value), value === 0 ? 0 : STRENGTH]);
function paletteOf(bytes2) {
  const found2 = /* @__PURE__ */ new Map();
  for (let at = CHUNKS; at + 8 < bytes2.byteLength; at += 12 + bytes2.getUint32(at)) {
    if (bytes2.getUint32(at + 4) !== 1347179589) continue;
    for (let index = bytes2.getUint32(at) / 3 - 1; index >= 0; index -= 1) {
      const [red, green, blue] = [0, 1, 2].map((part) => bytes2.getUint8(at + 8 + 3 * index + part));
      found2.set(colourOf(red, green, blue), index);
    }
    break;
  }
  return found2;
}
function colourOf(red, green, blue) {
  return red << 16 | green << 8 | blue;
}
function pixelsOf2(picture2) {
  const context = new OffscreenCanvas(picture2.width, picture2.height).getContext("2d");
  if (context === null) throw new Error("no canvas");
  context.drawImage(picture2, 0, 0);
  return context.getImageData(0, 0, picture2.width, picture2.height);
}
var over = /* @__PURE__ */ new WeakMap();
function overlaid(photo2, painted2) {
  const known = over.get(painted2);
  if (known !== void 0) return known;
  const sheet = new OffscreenCanvas(painted2.width, painted2.height);
  sheet.getContext("2d")?.putImageData(painted2, 0, 0);
  const context = new OffscreenCanvas(photo2.width, photo2.height).getContext("2d");
  if (context === null) throw new Error("no canvas");
  context.drawImage(photo2, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(sheet, 0, 0, photo2.width, photo2.height);
  const made = context.getImageData(0, 0, photo2.width, photo2.height);
  over.set(painted2, made);
  return made;
}

// src/app/labels.ts
var NUMBERS_SHOWN = 6;
var LEAST_YES = 0.5;
function classesOf({ target: { classes, num_classes: count2, shape } }) {
  if (count2 === null || shape.length > 0) return [];
  return classes ?? Array.from({ length: count2 }, (_, index) => String(index));
}
function likelyClassesOf(model2) {
  return taskOf(model2.loss)?.hasClasses === true ? classesOf(model2) : [];
}
function severalOf({ loss, target: { classes } }) {
  return taskOf(loss)?.namesSeveral === true ? classes : null;
}
function numberNamesOf({ loss, target: { classes, dtype, box_classes: boxes } }) {
  return dtype === "float32" && boxes === null && taskOf(loss)?.namesSeveral !== true ? classes ?? [] : [];
}
function numbersOf(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value) || isMask(value) || boxesOf(value) !== null) return null;
  return Object.entries(value);
}
function namesOf(model2) {
  return severalOf(model2) ?? (model2.target.classes === null ? [] : classesOf(model2));
}
var written = /* @__PURE__ */ new WeakMap();
function labelText(model2, value) {
  if (value === void 0) return "–";
  if (value === null) return "no label";
  if (isMask(value)) return `mask ${value.size[1]}×${value.size[0]}`;
  const boxes = boxesOf(value);
  if (boxes !== null) return countsText(boxes) || "no boxes";
  const named = numbersOf(value);
  if (named !== null) return named.map(([name, each2]) => `${name} ${each2 === null ? "?" : decimal(each2)}`).join(", ");
  if (!Array.isArray(value)) return model2.target.classes?.[Number(value)] ?? String(value);
  const text3 = written.get(value) ?? (model2.target.span_types === null ? arrayText(model2, value.flat(Infinity)) : countsText(value) || "no spans");
  written.set(value, text3);
  return text3;
}
function countsText(parts) {
  const counts = /* @__PURE__ */ new Map();
  for (const { label: label2 } of parts) counts.set(label2, (counts.get(label2) ?? 0) + 1);
  return [...counts].map(([label2, count2]) => count2 === 1 ? label2 : `${label2} ×${count2}`).join(", ");
}
function arrayText(model2, numbers) {
  const { target } = model2;
  const several = severalOf(model2);
  if (several !== null) return several.filter((_, index) => (numbers[index] ?? 0) >= LEAST_YES).join(", ") || "none";
  if (target.num_classes !== null) return sharesOf(numbers).map(([index]) => target.classes?.[index] ?? String(index)).join(", ");
  return numbers.length <= NUMBERS_SHOWN ? numbers.map((each2) => decimal(each2)).join("  ") : `${target.shape.join("×")} numbers`;
}
function sharesOf(indices) {
  const counts = /* @__PURE__ */ new Map();
  for (const index of indices) counts.set(index, (counts.get(index) ?? 0) + 1);
  return [...counts].map(([index, count2]) => [index, count2 / indices.length]).sort((a, b) => b[1] - a[1]);
}

// src/app/samples.ts
var SHOWN = {
  all: { title: "All", query: {} },
  unlabelled: { title: "Unlabelled", query: { unlabelled: "true" } },
  uncertain: { title: "Most uncertain first", query: { unlabelled: "true", order: "uncertainty" } },
  suspect: { title: "Possibly wrong labels", query: { suspect: "true" } },
  quarantined: { title: "Quarantined", query: { quarantined: "true" } },
  duplicates: { title: "Duplicates", query: {} }
};
var MOST_SAMPLES = 1e3;
var LEAST_SAMPLES = 50;
var LABEL_NUMBERS = 2e5;
var AT_ONCE = 4;
function workOf(app, name) {
  const begin2 = () => ({ active: null, selected: /* @__PURE__ */ new Set(), undo: [], unsaved: /* @__PURE__ */ new Map(), changed: /* @__PURE__ */ new Set(), last: Promise.resolve(), pages: 1 });
  return app.draft(`samples:${name}`, begin2);
}
function canShow(model2, show) {
  if (show === "suspect") return likelyClassesOf(model2).length > 0;
  return show !== "uncertain" || taskOf(model2.loss)?.hasDoubt === true;
}
function showOf(app) {
  const asked = app.route.query.get("show") ?? "all";
  return asked in SHOWN ? asked : "all";
}
function filterOf(app) {
  const show = showOf(app);
  if (show === "suspect" || show === "uncertain" || show === "duplicates") return null;
  const { query } = app.route;
  return { ...SHOWN[show].query, label: query.get("label"), split: query.get("split"), text: query.get("text") };
}
function listPath(app, name) {
  const show = showOf(app);
  if (show === "duplicates") return modelPath(name, "/samples/duplicates");
  return withQuery(modelPath(name, "/samples"), filterOf(app) ?? SHOWN[show].query);
}
function list(app, model2) {
  const path = listPath(app, model2.name);
  const work = workOf(app, model2.name);
  return app.resources.read(path, async (api) => {
    const listed = await loadList(api, path, work.pages, pageSize(model2));
    if (path !== listPath(app, model2.name)) return listed;
    const ids = new Set(listed.items.map(({ id }) => id));
    work.selected = new Set([...work.selected].filter((id) => ids.has(id)));
    if (work.active !== null && !ids.has(work.active)) work.active = null;
    return listed;
  });
}
function pageSize({ target }) {
  const numbers = target.shape.reduce((product, size) => product * size, 1);
  return Math.max(LEAST_SAMPLES, Math.min(MOST_SAMPLES, Math.floor(LABEL_NUMBERS / Math.max(1, numbers))));
}
async function loadList(api, path, pages, limit2, from = null) {
  const items = [];
  let next = from;
  let page = 0;
  while (page < pages) {
    const answer = await api.get(withQuery(path, { limit: limit2, cursor: next }));
    items.push(...answer.items.flatMap((each2) => "ids" in each2 ? each2.ids.map(unread) : [each2]));
    next = answer.next;
    page += answer.items.length > 0 || next === null ? 1 : 0;
    if (next === null) break;
  }
  return { items, next, pages: page };
}
function unread(id) {
  const nothing = { key: null, label: void 0, sha256: "", size_bytes: 0, created_at: "", quarantine: null };
  const unranked = { uncertainty: null, doubt: null, predicted: null };
  return { id, split: "train", pinned: false, weight: 1, ...nothing, ...unranked };
}
async function loadMore(app, model2, listed) {
  if (listed.next === null || listed.isGrowing === true) return;
  const path = listPath(app, model2.name);
  const pages = listed.pages + 1;
  listed.isGrowing = true;
  workOf(app, model2.name).pages = pages;
  try {
    const more = await loadList(app.api, path, 1, pageSize(model2), listed.next);
    Object.assign(listed, { items: [...listed.items, ...more.items], next: more.next, pages });
    app.draw();
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    app.resources.mark([path]);
  } finally {
    listed.isGrowing = false;
  }
}
async function remove(app, { name }, ids, retrain) {
  const work = workOf(app, name);
  const items = app.resources.peek(listPath(app, name))?.items ?? [];
  const at = items.findIndex(({ id }) => id === work.active);
  await each(ids, async (id) => {
    await app.api.remove(withQuery(modelPath(name, `/samples/${id}`), { retrain: retrain ? "true" : null }), true);
    work.selected.delete(id);
  });
  const near = at < 0 ? [] : [...items.slice(at), ...items.slice(0, at).reverse()];
  Object.assign(work, { active: near.find(({ id }) => !ids.includes(id))?.id ?? null, undo: [] });
  return ids.length === 1 ? "Sample deleted." : `${ids.length} samples deleted.`;
}
async function removeAll(app, { name }, filter, retrain) {
  const isEmpty = Object.values(filter).every((value) => value === null);
  const query = { ...filter, all: isEmpty ? "true" : null, retrain: retrain ? "true" : null };
  const { deleted, job: job2 } = await app.api.remove(withQuery(modelPath(name, "/samples"), query), true);
  Object.assign(workOf(app, name), { active: null, selected: /* @__PURE__ */ new Set(), undo: [] });
  const text3 = `${plural(deleted, "sample")} deleted.`;
  return job2 === null ? text3 : { text: `${text3} Job ${job2.id} retrains without them.`, link: to(["jobs", job2.id]) };
}
async function each(items, run) {
  const left = [...items];
  const worker = async () => {
    for (let item = left.shift(); item !== void 0; item = left.shift()) await run(item);
  };
  const ended2 = await Promise.allSettled(Array.from({ length: AT_ONCE }, worker));
  const failed = ended2.find((one) => one.status === "rejected");
  if (failed) throw failed.reason;
}
function filterTo(app, name, change3) {
  const now = Object.fromEntries(["show", "label", "split", "text"].map((key) => [key, app.route.query.get(key)]));
  Object.assign(workOf(app, name), { pages: 1, active: null, selected: /* @__PURE__ */ new Set() });
  app.go(to(["models", name, "samples"], { ...now, ...change3 }), { isSame: true });
}

// src/app/labelling.ts
var LATER = /* @__PURE__ */ new Set([401, 429]);
var GATHER_MS = 500;
var MOST_READ = 20;
async function label(app, model2, ids, value, before) {
  const { unsaved } = workOf(app, model2.name);
  await store(app, model2, ids.map((id) => ({ id, label: added(unsaved.get(id)?.label, value), before })));
}
async function labelAgain(app, model2) {
  await store(app, model2, [...workOf(app, model2.name).unsaved.values()]);
}
function countUnsaved({ state }) {
  const counts = [...state.drafts.values()].map(({ unsaved }) => unsaved instanceof Map ? unsaved.size : 0);
  return counts.reduce((sum, each2) => sum + each2, 0);
}
function added(before, value) {
  const isPart = numbersOf(before) !== null && numbersOf(value) !== null;
  return isPart ? { ...before, ...value } : value;
}
async function store(app, model2, changes) {
  const work = workOf(app, model2.name);
  const path = listPath(app, model2.name);
  for (const change3 of changes) work.unsaved.set(change3.id, change3);
  app.draw();
  await inTurn(work, async () => {
    const stored = await relabel(app, model2, path, changes);
    if (stored.length > 0) work.undo.push(stored);
  });
}
async function inTurn(work, run) {
  const turn = work.last.then(run, run);
  work.last = turn;
  await turn;
}
async function undo(app, model2) {
  const work = workOf(app, model2.name);
  const path = listPath(app, model2.name);
  await inTurn(work, async () => {
    const step2 = work.undo.pop() ?? [];
    for (const change3 of step2) work.unsaved.set(change3.id, change3);
    if (step2.length > 0) await relabel(app, model2, path, step2);
  });
}
function countsOf(name) {
  return ["/v1/models?", modelPath(name, "/samples/stats")];
}
async function takeOver(app, name, id) {
  const { unsaved, changed: changed2 } = workOf(app, name);
  const isShown = app.route.parts.slice(0, 3).join("/") === `models/${name}/samples`;
  if (!isShown || unsaved.has(id) || changed2.add(id).size > 1) return;
  await pause(GATHER_MS);
  const path = listPath(app, name);
  const listed = app.resources.peek(path)?.items.filter((sample2) => changed2.has(sample2.id)) ?? [];
  changed2.clear();
  const load = async (sample2) => {
    const { label: value, split } = await app.api.get(modelPath(name, `/samples/${sample2.id}`));
    app.resources.forget(maskPath(name, sample2.id));
    Object.assign(sample2, { label: value, split });
  };
  const isRead = listed.length <= MOST_READ && await each(listed, load).then(() => true, () => false);
  if (isRead) app.draw();
  else app.resources.mark([path]);
}
async function relabel(app, model2, path, changes) {
  const { unsaved } = workOf(app, model2.name);
  const known = (id) => app.resources.peek(path)?.items.find((sample2) => sample2.id === id);
  const stored = [];
  await app.act(`label:${model2.name}`, countsOf(model2.name), async () => {
    await each(changes, async (change3) => {
      const { id, label: value, before = known(id)?.label ?? null } = change3;
      const forget2 = () => unsaved.get(id) === change3 && unsaved.delete(id);
      const changed2 = await app.api.patch(modelPath(model2.name, `/samples/${id}`), { label: value }).catch((error) => {
        if (error instanceof Refused && !LATER.has(error.status) && error.status < 500) forget2();
        throw error;
      });
      forget2();
      stored.push({ id, label: before });
      app.resources.forget(maskPath(model2.name, id));
      Object.assign(known(id) ?? {}, { label: changed2.label, split: changed2.split });
    });
    return changes.length > 1 ? `${changes.length} samples labelled.` : null;
  });
  return stored;
}

// src/app/queries.ts
var SCRIPT = "/dashboard/dashboard.js";
var CURVE_PAGE = 500;
var HISTORY_MS = 55e3;
var DRIFTS_READ = 100;
var VERSIONS_SHOWN = 50;
var ENDED = ["succeeded", "failed", "cancelled"];
var JOBS_READ = 50;
var RUNNING = `/v1/jobs?${inStates(["running"])}`;
var WAITING = `/v1/jobs?${inStates(["queued", "paused"])}`;
function compareScript(app) {
  app.resources.read(SCRIPT, async (api, before) => {
    const script = await (await api.bytes(SCRIPT, AbortSignal.timeout(TIMEOUT_MS))).text();
    if (before !== void 0 && before !== script) throw new Refused(409, "upgraded", "The daemon was upgraded. Reload this page.");
    return script;
  });
}
function device(app) {
  return app.resources.read("/v1/device");
}
function deviceHistory(app) {
  const load = async (api, before) => {
    const kept2 = before;
    if (kept2 && performance.now() - kept2.at < HISTORY_MS) return kept2;
    return { at: performance.now(), body: await api.get("/v1/device/history") };
  };
  const kept = app.resources.read("/v1/device/history", load);
  return kept && kept.body;
}
function forecast(app, changed2) {
  const load = async (api) => {
    try {
      return { check: await api.post("/v1/policy/check", changed2), faults: [] };
    } catch (error) {
      if (error instanceof Refused && error.faults.length > 0) return { check: null, faults: error.faults };
      throw error;
    }
  };
  return app.resources.read(`/v1/device?policy=${JSON.stringify(changed2)}`, load);
}
function policy(app) {
  return app.resources.read("/v1/policy");
}
function models(app) {
  return app.resources.read("/v1/models?all", (api) => api.all("/v1/models"));
}
function staleOf({ name }) {
  return ["/v1/models?", modelPath(name)];
}
function model(app, name) {
  return app.resources.read(modelPath(name));
}
function versions(app, name) {
  const path = withQuery(modelPath(name, "/versions"), { limit: VERSIONS_SHOWN });
  return app.resources.read(path)?.items;
}
function latest(app, { name, latest_version: number2 }, list2) {
  const listed = list2.find(({ version }) => version === number2);
  if (listed !== void 0 || number2 === null) return listed ?? null;
  return app.resources.read(modelPath(name, `/versions/${number2}`)) ?? null;
}
function comparison(app, name, before, after) {
  const path = modelPath(name, `/versions/${before}/comparison/${after}`);
  return app.resources.read(path, (api, _, signal) => api.patient(path, signal));
}
function sample(app, { name }, id) {
  return app.resources.read(modelPath(name, `/samples/${id}`));
}
function prediction(app, { name, latest_version: latest2 }, id, version = null) {
  const key = withQuery(`/v1/predictions/${encodeURIComponent(name)}/${id}`, { latest: version === null ? latest2 : null, version });
  const load = async (api, _, signal) => {
    const content2 = await api.bytes(modelPath(name, `/samples/${id}/content`), signal);
    const path = modelPath(name, "/predict");
    try {
      return await api.upload(withQuery(path, { version: version ?? latest2 }), content2, signal);
    } catch (error) {
      const standsIn = version === null && error instanceof Refused && error.code === "model_not_loadable";
      if (!standsIn) throw error;
      return await api.upload(path, content2, signal);
    }
  };
  return app.resources.read(key, load, version !== null);
}
function triggers(app, name) {
  const path = modelPath(name, "/triggers");
  return app.resources.read(path, (api) => api.all(path));
}
function stats(app, name) {
  return app.resources.read(modelPath(name, "/samples/stats"));
}
function unfinished(app, path) {
  return app.resources.read(path, async (api) => (await api.all(path)).reverse());
}
function endedPath(model2 = null) {
  return withQuery(`/v1/jobs?${inStates(ENDED)}`, { model: model2 });
}
function ended(app, path) {
  const { items, isWhole } = pagesOf(app, path, JOBS_READ);
  return { items: items && [...items].sort((a, b) => (a.finished_at ?? "") < (b.finished_at ?? "") ? 1 : -1), isWhole };
}
function job(app, id) {
  return app.resources.read(`/v1/jobs/${id}`);
}
function jobLog(app, id) {
  return app.resources.read(`/v1/jobs/${id}/log`);
}
function drifts(app, all) {
  const path = withQuery("/v1/events/history", { type: "model.drifted", limit: DRIFTS_READ });
  const told5 = app.resources.read("/v1/drifts", (api) => api.get(path))?.items ?? [];
  return all.flatMap(({ name, latest_version: latest2 }) => {
    const newest = told5.find(({ model: model2 }) => model2 === name);
    return newest && newest.data.version === latest2 ? [newest] : [];
  });
}
function drift(app, { name, latest_version: latest2 }) {
  const key = withQuery(`/v1/drifts/${encodeURIComponent(name)}`, { latest: latest2 });
  return app.resources.read(key, (api, _, signal) => api.patient(modelPath(name, "/drift"), signal));
}
function isOver(job2) {
  return ENDED.includes(job2.state);
}
function curve(app, job2) {
  const key = `/v1/jobs/${job2.id}/metrics`;
  const load = (api, before) => loadCurve(api, job2, before);
  const read2 = app.resources.read(key, load);
  return read2 ? [...read2.complete, ...read2.tail] : void 0;
}
async function loadCurve(api, job2, before) {
  const known = before?.restarts === job2.restarts ? before : null;
  const complete2 = [...known?.complete ?? []];
  let cursor = known?.tailCursor ?? null;
  for (; ; ) {
    const path = withQuery(`/v1/jobs/${job2.id}/metrics`, { limit: CURVE_PAGE, cursor });
    const page = await api.get(path);
    if (page.next === null) return { restarts: job2.restarts, complete: complete2, tail: page.items, tailCursor: cursor };
    complete2.push(...page.items);
    cursor = page.next;
  }
}
function pagesOf(app, path, size) {
  const { pages } = shownOf(app, path);
  const load = async (api) => {
    const items = [];
    let cursor = null;
    for (let number2 = 0; number2 < shownOf(app, path).pages; number2 += 1) {
      const page = await api.get(withQuery(path, { limit: size, cursor }));
      items.push(...page.items);
      cursor = page.next;
      if (cursor === null) break;
    }
    return { items, next: cursor };
  };
  const key = withQuery(path, { pages });
  const read2 = app.resources.read(key, load);
  if (read2 === null) return { items: app.resources.isRefused(key) ? null : [], isWhole: true };
  const known = read2 ?? (pages > 1 ? app.resources.peek(withQuery(path, { pages: pages - 1 })) : void 0);
  return { items: known?.items, isWhole: known?.next === null };
}
function shownOf(app, path) {
  return app.draft(`pages:${path}`, () => ({ pages: 1 }));
}
function inStates(states) {
  return states.map((state) => `state=${state}`).join("&");
}

// src/app/happenings.ts
var EVERYTHING = ["/v1/"];
var CHANGED = {
  alias: ["/aliases", "/versions?"],
  checkpoint: ["/checkpoints"],
  job: ["/base", "/federation", "/triggers"],
  samples: ["?", "/base-set", "/classes", "/reference", "/samples", "/triggers"],
  trigger: ["/triggers"],
  variant: ["/versions?"],
  version: ["?", "/aliases", "/base", "/checkpoints", "/classes", "/samples?", "/versions?"]
};
function staleAfter(happened) {
  const [family = ""] = happened.type.split(".");
  if (family === "device" || family === "policy") return ["/v1/device", "/v1/policy", "/v1/jobs"];
  if (family === "storage") return ["/v1/verification", "/readyz"];
  if (happened.type === "events.lost" || happened.model === null) return EVERYTHING;
  const below = (CHANGED[family] ?? [""]).map((place) => modelPath(happened.model ?? "", place));
  if (family === "job") return ["/v1/jobs", "/v1/device", ...below];
  const changed2 = ["/v1/models?", ...below, ...family === "model" ? ["/v1/drifts"] : []];
  return happened.type === "model.deleted" ? [...changed2, "/v1/jobs"] : changed2;
}
function applyProgress(resources, data) {
  const id = data.job_id;
  let isKnown = false;
  const take2 = (job2) => {
    if (job2.id !== id) return;
    isKnown = true;
    for (const name of Object.keys(job2.progress)) {
      const value = data[name];
      if (typeof value === "number" || value === null) Object.assign(job2.progress, { [name]: value });
    }
    if (typeof data.train_loss === "number") job2.metrics.train_loss = data.train_loss;
  };
  resources.update(RUNNING, (jobs) => jobs.forEach(take2));
  resources.update(`/v1/jobs/${String(id)}`, take2);
  return isKnown;
}
function parse(data) {
  const told5 = JSON.parse(data);
  if (typeof told5 !== "object" || told5 === null || !("type" in told5)) return null;
  const { type, model: model2, data: fields2 } = told5;
  return { type: String(type), model: model2 ?? null, data: fields2 ?? {} };
}

// src/app/live.ts
var POLL_MS = 2e3;
var FIRST_RETRY_MS = 300;
var FIRST_RETRY_TIMEOUT_MS = 5e3;
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
  #isFirst = true;
  /** Until the token is refused; rejects with that refusal. A hidden page asks nothing. */
  async run() {
    for (; ; ) {
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
  async #connected() {
    const controller = new AbortController();
    const { signal } = controller;
    const { resources, api } = this.app;
    const hide = () => controller.abort();
    document.addEventListener("visibilitychange", hide, { once: true });
    const again = setInterval(() => {
      resources.retry();
      resources.mark(untold(this.app));
    }, LOOK_AGAIN_MS);
    const watchdog = new Watchdog(SILENCE_MS, controller, this.#failures === 1 ? FIRST_RETRY_TIMEOUT_MS : TIMEOUT_MS);
    try {
      const headers = this.#lastId ? { "Last-Event-ID": this.#lastId } : {};
      const [stream, failed] = await this.#begin(api.stream("/v1/events", headers, signal));
      const told5 = stream === null ? this.#poll(signal, watchdog) : this.#follow(stream, watchdog);
      await Promise.race([told5, failed]);
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
  async #begin(asked) {
    const { resources } = this.app;
    let fail = () => void 0;
    const failed = new Promise((_, reject) => fail = reject);
    const early = this.#isFirst ? resources.open(fail) : null;
    this.#isFirst = false;
    const stream = await Promise.race([asked, failed]);
    if (early !== null) resources.mark(EVERYTHING);
    void (early ?? resources.open(fail)).then((isSo) => {
      if (isSo) this.#connect(stream === null ? "polling" : "live");
    });
    return [stream, failed];
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
    } else if (happened.type === "samples.changed" && happened.model !== null) {
      const id = Number(happened.data.id);
      resources.mark([...countsOf(happened.model), modelPath(happened.model, `/samples/${id}`)]);
      void takeOver(this.app, happened.model, id);
    } else {
      resources.mark([...staleAfter(happened), "/v1/events"]);
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
function untold({ route: { parts: [place, id] }, resources }) {
  const job2 = place === "jobs" ? resources.peek(`/v1/jobs/${String(id)}`) : null;
  return ["/v1/device", WAITING, "/v1/audit", ...job2 && !isOver(job2) ? [`/v1/jobs/${job2.id}`] : []];
}

// src/app/registration.ts
var NAME = "add-model";
var OWN_LOSS = "output:";
var CHECK = "check-model";
var PREPROCESS = {
  image: { kind: "image" },
  gray: { kind: "image", channels: "gray" },
  standardize: { kind: "standardize" },
  windows: { kind: "windows" },
  "windows, turned": { kind: "windows", layout: "channels_first" },
  audio: { kind: "audio" },
  "audio, turned": { kind: "audio", layout: "time_first" },
  text: { kind: "text" }
};
function draftOf(app) {
  return app.draft(NAME, () => ({ file: null, tokenizer: null, round: 0, found: null, touched: /* @__PURE__ */ new Set(), abort: null }));
}
function take(app, file) {
  if (!file) return;
  const draft = draftOf(app);
  Object.assign(draft, { file, round: draft.round + 1, found: null, touched: /* @__PURE__ */ new Set() });
  app.state.results.delete(NAME);
  if (file.name.endsWith(".zip")) {
    draft.abort?.abort();
    app.draw();
  } else void diagnose(app, {});
}
function faultsAt(app, place) {
  const { results } = app.state;
  const found2 = place.startsWith("/spec/") || place === "/tokenizer" ? draftOf(app).found?.problems ?? [] : [];
  const all = [...results.get(NAME)?.faults ?? [], ...results.get(CHECK)?.faults ?? [], ...found2];
  return [...new Set(all.filter(({ pointer }) => isAt(pointer, place)).map(({ detail: detail2 }) => detail2))];
}
function isAt(pointer, place) {
  return pointer === place || pointer.startsWith(`${place}/`);
}
function checkProblem(app) {
  const result = app.state.results.get(CHECK);
  return result === void 0 || result.faults.length > 0 ? null : result.text;
}
async function diagnose(app, spec) {
  const draft = draftOf(app);
  if (draft.file === null) return;
  draft.abort?.abort();
  const controller = draft.abort = new AbortController();
  app.draw();
  try {
    const found2 = await app.api.upload("/v1/diagnosis", formOf(draft.file, draft.tokenizer, spec), controller.signal);
    if (controller.signal.aborted) return;
    draft.found = found2;
    app.state.results.delete(CHECK);
  } catch (error) {
    if (controller.signal.aborted) return;
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    draft.found = null;
    app.state.results.set(CHECK, resultOf(error));
  } finally {
    if (draft.abort === controller) draft.abort = null;
    app.draw();
  }
}
async function register(app, given) {
  const draft = draftOf(app);
  const { file } = draft;
  if (file === null) return null;
  draft.abort?.abort();
  const spec = { name: String(given.get("name") ?? "").trim() || nameOf(file), ...specOf(draft, given, true) };
  const done = [];
  await app.act(NAME, ["/v1/models?"], async () => {
    const model2 = await app.api.upload("/v1/models", formOf(file, draft.tokenizer, spec));
    done.push(model2.name);
    return `${model2.name} is registered. Version 1 is the file as uploaded.`;
  });
  if (done.length > 0) app.state.drafts.delete(NAME);
  return done[0] ?? null;
}
function formOf(file, tokenizer, spec) {
  const body = new FormData();
  body.append("spec", JSON.stringify(spec));
  body.append(file.name.endsWith(".zip") ? "artifacts" : "model", file, file.name);
  if (tokenizer !== null) body.append("tokenizer", tokenizer, tokenizer.name);
  return body;
}
function nameOf(file) {
  return file === null ? null : file.name.replace(/\.\w+$/, "").toLowerCase().replace(/[^a-z0-9_.-]+/g, "-");
}
function specOf(draft, given, isWhole) {
  const text3 = (name) => String(given.get(name) ?? "").trim();
  const listed = (name) => text3(name).split(",").map((part) => part.trim()).filter(Boolean);
  const [classes, trainable] = [listed("classes"), listed("trainable")];
  const loss = text3("loss");
  const isChosen = isWhole || draft.found !== null || draft.touched.has("loss");
  return {
    optimizer: text3("optimizer"),
    ...isChosen ? { loss: loss.startsWith(OWN_LOSS) ? { output: loss.slice(OWN_LOSS.length) } : loss } : {},
    ...classes.length > 0 ? { classes } : {},
    ...trainable.length > 0 ? { trainable } : {},
    ...text3("output") ? { output: text3("output") } : {},
    ...text3("preprocess") ? { preprocess: [preprocessOf(draft, text3("preprocess"))] } : {}
  };
}
function preprocessOf({ found: found2 }, chosen3) {
  const [suggested] = found2?.suggested?.preprocess ?? [];
  return suggested && presetOf(suggested) === chosen3 ? suggested : PREPROCESS[chosen3] ?? {};
}
function presetOf({ kind, channels }) {
  if (kind !== "image") return String(kind);
  return channels === "gray" ? "gray" : "image";
}

// src/page/words.ts
var CONDITIONS = {
  another_job: "Another job is training",
  asleep: "The device is going to sleep",
  battery: "The battery is low",
  battery_saver: "Battery saver is on",
  cpu_pressure: "CPU pressure is high",
  daemon_stopped: "The daemon was stopped",
  daily_limit: "The daily limit is reached",
  disk: "The disk is nearly full",
  foreign_cpu: "Other programs are using the CPU",
  io_pressure: "I/O pressure is high",
  memory: "Memory is low",
  memory_pressure: "Memory pressure is high",
  paused: "Paused",
  paused_by_person: "Paused manually",
  power: "Not on mains power",
  processes: "A blocking program is running",
  snoozed: "Snoozed",
  starting: "The daemon is starting",
  temperature: "The device is hot",
  user_idle: "The device is in use",
  window: "Outside the training hours"
};
var UNKNOWN = {
  battery: "The battery level is unknown",
  battery_saver: "The state of battery saver is unknown",
  cpu_pressure: "CPU pressure is unknown",
  disk: "Free disk space is unknown",
  foreign_cpu: "CPU use by other programs is unknown",
  io_pressure: "I/O pressure is unknown",
  memory: "Free memory is unknown",
  memory_pressure: "Memory pressure is unknown",
  power: "The power source is unknown",
  processes: "The running programs are unknown",
  temperature: "The temperature is unknown",
  user_idle: "Idle time is unknown",
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
var METRIC_WORDS = {
  ap: "AP",
  f1: "F1",
  iou: "IoU",
  macro_f1: "macro F1",
  mae: "mean absolute error",
  map: "mAP",
  map_50: "mAP at 0.5",
  mean_iou: "mean IoU",
  micro_f1: "micro F1",
  r2: "R²",
  span_f1: "F1 of spans",
  top_5_accuracy: "top-5 accuracy"
};
function metricWords(name) {
  return METRIC_WORDS[name] ?? name.replaceAll("_", " ");
}
function isShare(metric) {
  return METRICS[metric]?.higherIsBetter === true;
}
function judgedBy({ gate, loss }) {
  return [gate.metric, ...metricsOf(loss).filter((name) => name !== gate.metric)];
}
function measure(metrics, baseline, names) {
  for (const name of names) {
    const [after, before] = [metrics[name], baseline[name]];
    if (typeof after === "number") {
      return { name: metricWords(name), isShare: isShare(name), after, before: typeof before === "number" ? before : null };
    }
  }
  return null;
}
function measureOf(model2, list2, { version, metrics, baseline }) {
  const next = list2.filter(({ verdict: verdict2 }) => verdict2.baseline_version === version).at(-1);
  const names = judgedBy(model2);
  return measure(metrics, baseline, names) ?? measure(next?.baseline ?? {}, {}, names);
}

// src/views/parts/parts.ts
function press(app, { name, label: label2, about, kind, stale: stale2 = [], disabled, run }) {
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
        onclick: () => void app.act(name, stale2, run)
      },
      label2
    ),
    outcome(app, name)
  );
}
function outcome(app, name, fields2 = []) {
  const result = app.state.results.get(name);
  if (result === void 0) return null;
  const faults2 = result.faults.filter(({ pointer }) => !fields2.some((place) => isAt(pointer, place)));
  return h(
    "span",
    { class: "outcome problem", role: "alert", "data-key": "outcome" },
    result.text,
    faults2.length > 0 && h("ul", {}, faults2.map((fault) => h("li", {}, faultText(fault))))
  );
}
function faultsAt2(app, name, place) {
  const faults2 = app.state.results.get(name)?.faults.filter(({ pointer }) => isAt(pointer, place)) ?? [];
  return faults2.map(({ pointer, detail: detail2 }) => h("span", { class: "problem", role: "alert" }, faultText({ pointer: pointer.slice(place.length), detail: detail2 })));
}
function faultText({ pointer, detail: detail2 }) {
  return pointer === "" ? [detail2] : [h("code", {}, pointer), ` ${detail2}`];
}
function opener(name, label2, onclick, about = "", kind = null, disabled = false) {
  return h(
    "button",
    { type: "button", class: kind, "data-key": name, "aria-label": about ? `${label2} ${about}` : null, disabled, onclick },
    label2
  );
}
function fileButton(label2, take2, attributes = {}) {
  const onchange = (event) => {
    const field3 = event.currentTarget;
    if (field3.files?.[0]) take2(field3.files[0], field3.files);
    field3.value = "";
  };
  return h("label", { class: `file ${attributes.disabled ? "off" : ""}` }, label2, h("input", { type: "file", class: "visually-hidden", ...attributes, onchange }));
}
function dropping(take2) {
  const ondrop = (event) => {
    event.preventDefault();
    if (event.dataTransfer) take2(event.dataTransfer);
  };
  return { ondragover: (event) => event.preventDefault(), ondrop };
}
function badge(kind, text3) {
  return h("span", { class: `badge ${kind}` }, text3 ?? STATES[kind]);
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
  return h("time", { datetime: time, title: moment(then) }, ago(then, /* @__PURE__ */ new Date()));
}
function fact(name, value) {
  return h("div", { class: "fact", "data-key": name }, h("dt", {}, name), h("dd", {}, value));
}
function pairs(entries2) {
  const shown2 = (value) => typeof value === "string" ? value : JSON.stringify(value);
  return h("dl", { class: "pairs" }, entries2.map(([name, value]) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, shown2(value)))));
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
function table(label2, titles, rows, kind = null) {
  const head3 = h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title))));
  return scrolled(label2, h("table", { class: kind }, head3, h("tbody", {}, rows)));
}
function unseen(words) {
  return h("span", { class: "visually-hidden" }, words);
}
function tabs(label2, all, current) {
  return h(
    "nav",
    { class: "tabs", "aria-label": label2, "data-key": "tabs" },
    all.map(({ name, href }) => h("a", { href, "aria-current": name === current ? "page" : null }, name))
  );
}
function heading(title, ...beside) {
  return h("div", { class: "heading", "data-key": "heading" }, h("h1", { tabindex: -1 }, title), beside);
}
function missing(what, href, name) {
  return [heading(`${what} not found`), h("p", {}, h("a", { href }, name))];
}
function loading(known) {
  return known === null ? null : h("p", { class: "quiet", "data-key": "loading" }, "Loading …");
}
function confirm(app, question) {
  const { title, detail: detail2 = null, fields: fields2, places, no = "Keep it", yes, kind = "danger", name, stale: stale2, run, done = () => app.close() } = question;
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    if (await app.act(name, stale2, () => run(given))) done();
  };
  app.state.results.delete(name);
  app.open(
    () => h(
      "form",
      { class: "question", "data-key": name, onsubmit: (event) => void submit(event) },
      h("h2", { id: "dialog-title" }, title),
      detail2 !== null && h("p", {}, detail2),
      fields2?.() ?? null,
      outcome(app, name, places),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => app.close() }, no),
        h("button", { type: "submit", class: kind, disabled: app.state.pending.has(name) }, yes)
      )
    )
  );
}
function remover(app, { label: label2, about, remove: remove2, said: said2, ...question }) {
  const run = async () => {
    await remove2();
    return said2;
  };
  return opener(`ask-${question.name}`, label2, () => confirm(app, { ...question, run }), about, "danger");
}

// src/views/models/diagnosis.ts
var LEAVES_SHOWN = 200;
var OPEN_TO = 12;
var WHY = {
  constant: "constant",
  frozen: "frozen",
  integer: "integer",
  mask: "mask",
  no_gradient: "no gradient",
  precision: "not float32",
  quantized: "quantized",
  statistic: "running statistic"
};
function diagnosisView(found2) {
  return h(
    "div",
    { class: "columns", "data-key": "diagnosis" },
    section(
      found2.ready ? "File contents" : "The file cannot be registered with these settings",
      { id: "holds", class: found2.ready ? "" : "refused" },
      problemsView(found2),
      h(
        "dl",
        { class: "facts" },
        found2.inputs.map((each2) => fact(`input ${each2.name}`, shapeText(each2))),
        found2.outputs.map((each2) => fact(`output ${each2.name}`, shapeText(each2))),
        found2.opset !== null && fact("opset", String(found2.opset)),
        fact("operators", count(found2.operators)),
        found2.producer !== "" && fact("producer", found2.producer),
        found2.head !== null && fact("head", h("code", {}, found2.head.weight))
      ),
      found2.suggested !== null && h("p", { "data-key": "because" }, h("strong", {}, "Loss: "), found2.suggested.because, "."),
      classesView(found2),
      found2.notes.length > 0 && h("ul", { class: "quiet", "data-key": "notes" }, found2.notes.map((note) => h("li", {}, note)))
    ),
    section("Parameters", { id: "parameters" }, sharesView(found2), cutView(found2), treeView(found2.parameters.items))
  );
}
function problemsView({ problems }) {
  const ofGraph = problems.filter(({ pointer }) => !pointer.startsWith("/spec/"));
  if (problems.length === 0) return null;
  if (ofGraph.length === 0) return h("p", { class: "problem", "data-key": "problems" }, "See the errors next to the fields above.");
  return h("div", { class: "problem", role: "alert", "data-key": "problems" }, h("ul", {}, ofGraph.map(({ detail: detail2 }) => h("li", {}, detail2))));
}
function shapeText({ dtype, shape }) {
  return shape === null ? dtype : `${shape.map((size) => size ?? "?").join("×") || "1"} ${dtype}`;
}
function classesView({ target }) {
  if (!target || target.num_classes === null) return null;
  const names = target.classes === null ? "unnamed in the file" : target.classes.join(", ");
  return h("p", { "data-key": "classes" }, h("strong", {}, `${plural(target.num_classes, "class", "classes")}: `), names);
}
function sharesView({ parameters }) {
  const sum = (which) => parameters.items.filter(which).reduce((total3, item) => total3 + item.count, 0);
  const parts = [
    { kind: "below", words: "below the cut", size: sum((item) => !item.trains && item.below) },
    { kind: "frozen", words: "frozen", size: sum((item) => !item.trains && !item.below) },
    { kind: "trains", words: "trainable", size: sum((item) => item.trains) }
  ];
  const total2 = Math.max(1, parts.reduce((all, { size }) => all + size, 0));
  let at = 0;
  const bars = parts.map(({ kind, size }) => {
    const x = at;
    at += size / total2 * 100;
    return s("rect", { class: kind, x, width: size / total2 * 100, height: 8 });
  });
  return h(
    "div",
    { class: "shares", "data-key": "shares" },
    s("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, bars),
    h(
      "ul",
      { class: "legend" },
      parts.filter(({ size, kind }) => size > 0 || kind === "trains").map(({ kind, words, size }) => h("li", { class: kind }, h("span", { class: "number" }, count(size)), ` ${words}`))
    )
  );
}
function cutView({ cut, parameters }) {
  if (cut === null) {
    return parameters.frozen === 0 ? null : h("p", { class: "quiet", "data-key": "cut" }, "No cut: no frozen layers come before the trainable ones.");
  }
  const what = `${plural(cut.nodes, "operator")} with ${plural(cut.parameters, "parameter")} lie below it, ${decimal(cut.milliseconds)} ms per sample`;
  const across = `${bytes(cut.feature_bytes)} of features instead of ${bytes(cut.input_bytes)} of input`;
  const how = cut.pays ? `They run once per sample, which is then stored as ${across}.` : `It would not pay off (${across}), so it is not made.`;
  return h("p", { "data-key": "cut" }, h("strong", {}, "The cut"), " is at ", h("code", {}, cut.tensors.join(", ")), `. ${what}. ${how}`);
}
function treeView(items) {
  if (items.length === 0) return h("p", { class: "quiet", "data-key": "tree" }, "Parameters of artifacts are not listed.");
  const root2 = { name: "", leaves: [], branches: /* @__PURE__ */ new Map() };
  for (const item of items) grow(root2, item, item.name.split(/[./]+/).filter(Boolean));
  return h("div", { class: "tree", "data-key": "tree", role: "group", "aria-label": "Parameters" }, branchItems(root2, items.length <= OPEN_TO));
}
function grow(branch, item, parts) {
  const [first, ...rest] = parts;
  if (first === void 0 || rest.length === 0) {
    branch.leaves.push(item);
    return;
  }
  const next = branch.branches.get(first) ?? { name: first, leaves: [], branches: /* @__PURE__ */ new Map() };
  branch.branches.set(first, next);
  grow(next, item, rest);
}
function branchItems(branch, isOpen) {
  const hidden = branch.leaves.length - LEAVES_SHOWN;
  return h(
    "ul",
    {},
    [...branch.branches.values()].map((each2) => branchView(each2, isOpen)),
    branch.leaves.slice(0, LEAVES_SHOWN).map(leafView),
    hidden > 0 && h("li", { class: "quiet" }, `and ${plural(hidden, "more parameter")}`)
  );
}
function branchView(branch, isOpen) {
  let [only, name] = [branch, branch.name];
  while (only.leaves.length === 0 && only.branches.size === 1) {
    const [next] = only.branches.values();
    if (next === void 0) break;
    only = next;
    name = `${name}.${next.name}`;
  }
  const all = leavesOf(only);
  const total2 = all.reduce((sum, item) => sum + item.count, 0);
  const training = all.filter((item) => item.trains).reduce((sum, item) => sum + item.count, 0);
  const fate = training === total2 ? "trains" : training === 0 ? all.every((item) => item.below) ? "below" : "frozen" : "partly";
  return h(
    "li",
    { "data-key": name },
    h(
      "details",
      { open: isOpen },
      h("summary", { class: fate }, h("code", {}, name), h("span", { class: "number" }, ` ${count(total2)}`), h("span", { class: "fate" }, { trains: "trainable", below: "below the cut", frozen: "frozen", partly: `${count(training)} trainable` }[fate])),
      branchItems(only, isOpen)
    )
  );
}
function leavesOf(branch) {
  return [...branch.leaves, ...[...branch.branches.values()].flatMap(leavesOf)];
}
function leafView(item) {
  const why = item.trains ? "trainable" : WHY[item.why_not ?? ""] ?? "frozen";
  return h(
    "li",
    { class: `leaf ${item.trains ? "trains" : item.below ? "below" : "frozen"}`, "data-key": item.name, title: item.detail },
    h("code", {}, item.name.split(/[./]+/).filter(Boolean).at(-1) ?? item.name),
    h("span", { class: "number" }, ` ${count(item.count)}`),
    h("span", { class: "quiet" }, ` ${item.shape.join("×") || "1"}`),
    h("span", { class: "fate" }, item.below && !item.trains ? `${why}, below the cut` : why),
    item.detail !== null && item.why_not !== "frozen" && h("span", { class: "quiet detail" }, item.detail)
  );
}

// src/views/models/add.ts
var LOSSES = Object.entries(TASKS).map(([name, { title }]) => [name, title]);
var OPTIMIZERS = ["adamw", "adam", "sgd", "rmsprop", "lion"];
var SAMPLES = [
  ["", "raw tensors"],
  ["image", "color images"],
  ["gray", "grayscale images"],
  ["standardize", "numbers to standardize"],
  ["windows", "time series windows, time × channels"],
  ["windows, turned", "time series windows, channels × time"],
  ["audio", "audio, bands × frames"],
  ["audio, turned", "audio, frames × bands"],
  ["text", "texts, with a tokenizer"]
];
var FIELDS = ["name", "loss", "classes", "trainable", "optimizer", "output", "preprocess"];
var PLACES = ["/model", "/artifacts", "/tokenizer", ...FIELDS.map((name) => `/spec/${name}`)];
var CHECKED = ["loss", "classes", "trainable", "output", "preprocess"];
function addPage(app) {
  const draft = draftOf(app);
  const send2 = (event) => {
    event.preventDefault();
    void register(app, new FormData(event.currentTarget)).then((name) => {
      if (name !== null) app.go(to(["models", name, "samples"]));
    });
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
        onchange: (event) => changed(app, draft, event),
        ...dropping(({ files }) => take(app, files[0]))
      },
      fileField(app, draft),
      fields(app, draft),
      outcome(app, NAME, PLACES),
      buttons(app, draft)
    ),
    draft.found === null ? null : diagnosisView(draft.found)
  ];
}
function changed(app, draft, event) {
  const { name, form } = event.target;
  if (form === null || !CHECKED.includes(name)) return;
  draft.touched.add(name);
  void diagnose(app, specOf(draft, new FormData(form), draft.file?.name.endsWith(".zip") ?? false));
}
function buttons(app, draft) {
  const isPending = app.state.pending.has(NAME);
  const isUnknown = draft.found === null && draft.abort !== null;
  const says2 = isPending ? "Preparing the model. This may take a minute." : draft.abort ? "Checking the file …" : null;
  return h(
    "div",
    { class: "buttons", "data-key": "buttons" },
    h("button", { type: "submit", class: "primary", disabled: draft.file === null || isPending || isUnknown }, "Register the model"),
    h("span", { class: "quiet", role: "status" }, says2)
  );
}
function fileField(app, { file }) {
  const problem = checkProblem(app);
  return h(
    "div",
    { class: "drop", "data-key": "file", role: "group", "aria-label": "The file" },
    h("p", { class: "quiet" }, file === null ? "Drop a forward ONNX file here, or" : h("span", {}, h("strong", {}, file.name), ` ${bytes(file.size)}`)),
    fileButton(file === null ? "Choose a file" : "Choose another", (chosen3) => take(app, chosen3), { accept: ".onnx,.zip" }),
    faults(app, "/model"),
    faults(app, "/artifacts"),
    problem === null ? null : h("span", { class: "problem", role: "alert" }, problem)
  );
}
function fields(app, draft) {
  const suggested = draft.found?.suggested ?? null;
  const field3 = (name, title, control2) => h("label", { "data-key": name }, h("span", {}, title), control2, faults(app, `/spec/${name}`));
  const text3 = (name, placeholder, value = "") => h("input", { name, type: "text", placeholder, value, autocomplete: "off", spellcheck: "false", "aria-invalid": faultsAt(app, `/spec/${name}`).length > 0 });
  const select = (name, options, chosen3) => h("select", { name }, options.map(([value, words]) => h("option", { value, selected: value === chosen3 }, words)));
  const [preprocess] = suggested?.preprocess ?? [];
  const [losses, loss] = lossChoices(draft);
  return h(
    "div",
    { class: "fields", "data-key": `fields-${draft.round}` },
    field3("name", "Name", text3("name", nameOf(draft.file) ?? "digits")),
    field3("loss", "Loss", select("loss", losses, loss)),
    field3("classes", "Classes, comma-separated", text3("classes", "cat, dog; empty: numbered", suggested?.classes?.join(", "))),
    field3("trainable", "Trainable weights", text3("trainable", "head, last:2; empty: all")),
    field3("optimizer", "Optimizer", select("optimizer", OPTIMIZERS.map((value) => [value, value]), null)),
    field3("output", "Output that apps get", text3("output", "the only output", suggested?.output ?? "")),
    field3("preprocess", "Sample format", select("preprocess", SAMPLES, preprocess ? presetOf(preprocess) : null)),
    tokenizerField(app, draft)
  );
}
function tokenizerField(app, draft) {
  const take2 = (event) => {
    const { files, form } = event.currentTarget;
    const samples = form?.elements.namedItem("preprocess");
    if (!files?.[0] || form === null || !(samples instanceof HTMLSelectElement)) return;
    draft.tokenizer = files[0];
    samples.value = "text";
    draft.touched.add("preprocess");
    void diagnose(app, specOf(draft, new FormData(form), false));
  };
  return h(
    "label",
    { "data-key": "tokenizer" },
    h("span", {}, "Tokenizer, for texts"),
    h("span", { class: "file" }, draft.tokenizer?.name ?? "Choose tokenizer.json", h("input", { type: "file", accept: ".json", class: "visually-hidden", onchange: take2 })),
    faults(app, "/tokenizer")
  );
}
function lossChoices({ found: found2 }) {
  const loss = found2?.suggested?.loss ?? null;
  const numbers = (found2?.outputs ?? []).filter(({ dtype, shape }) => dtype === "float32" && !shape?.length);
  const own2 = numbers.map(({ name }) => [`${OWN_LOSS}${name}`, `the model’s own: ${name}`]);
  return [[...LOSSES, ...own2], loss === null || typeof loss === "string" ? loss : `${OWN_LOSS}${loss.output}`];
}
function faults(app, place) {
  return faultsAt(app, place).map((detail2) => h("span", { class: "problem" }, detail2));
}

// src/page/conditions.ts
var asPercent = (value) => `${decimal(value)} %`;
var LEVELS = [
  { name: "battery", title: "Battery", signal: "battery_percent", show: asPercent, stop: "min_battery_percent", resume: "resume_battery_percent", isMinimum: true },
  { name: "foreign_cpu", title: "CPU use by other programs", signal: "foreign_cpu_percent", show: asPercent, stop: "max_foreign_cpu_percent", isMinimum: false },
  { name: "cpu_pressure", title: "CPU pressure", signal: "cpu_pressure_percent", show: asPercent, stop: "max_cpu_pressure_percent", isMinimum: false },
  { name: "memory_pressure", title: "Memory pressure", signal: "memory_pressure_percent", show: asPercent, stop: "max_memory_pressure_percent", isMinimum: false },
  { name: "io_pressure", title: "I/O pressure", signal: "io_pressure_percent", show: asPercent, stop: "max_io_pressure_percent", isMinimum: false },
  { name: "temperature", title: "Temperature", signal: "temperature_c", show: (value) => `${decimal(value)} °C`, stop: "max_temperature_c", resume: "resume_temperature_c", isMinimum: false },
  { name: "memory", title: "Free memory", signal: "available_memory_bytes", show: bytes, stop: "min_free_memory_bytes", resume: "resume_free_memory_bytes", isMinimum: true },
  { name: "disk", title: "Free disk space", signal: "free_disk_bytes", show: bytes, stop: "min_free_disk_bytes", resume: "resume_free_disk_bytes", isMinimum: true }
];
function limitsOf(policy2) {
  const value = (name) => {
    const set = name === void 0 ? null : policy2[name];
    return typeof set === "number" ? set : null;
  };
  const idleFrom = policy2.require_idle === true ? Number(policy2.idle_minutes) * 60 : null;
  return [
    ...LEVELS.map(({ title, signal, show, stop, resume }) => ({ title, signal, show, stop: value(stop), resume: value(resume) })),
    { title: "Idle time", signal: "user_idle_s", show: duration, stop: idleFrom, resume: null }
  ];
}
function conditionsOf(device2, policy2) {
  const blocking = new Set(device2.blocked_by.map((each2) => each2.condition));
  const [battery, ...others] = LEVELS.map((level) => fromLevel(level, device2, policy2));
  const found2 = [power(device2, policy2), battery, saver(device2, policy2), idle(device2, policy2), ...others, ...byTime(device2, policy2)];
  return found2.filter((each2) => each2 !== void 0).map((each2) => ({ share: null, ...each2, isBlocking: blocking.has(each2.name) }));
}
function fromLevel({ name, title, signal, show, stop, resume, isMinimum }, device2, policy2) {
  const { value, note } = told(device2.signals[signal], (raw2) => show(Number(raw2)));
  const limit2 = policy2[stop];
  if (typeof limit2 !== "number") return { name, title, value, note, limit: null };
  const back = resume === void 0 ? null : policy2[resume];
  const until = typeof back === "number" && back !== limit2 ? `, resumes at ${show(back)}` : "";
  const raw = device2.signals[signal]?.value;
  const share = typeof raw === "number" && !isMinimum ? Math.min(1, raw / limit2) : null;
  return { name, title, value, note, limit: `${isMinimum ? "at least" : "at most"} ${show(limit2)}${until}`, share };
}
function power(device2, policy2) {
  const read2 = told(device2.signals.on_ac_power, (raw) => raw === true ? "mains" : "battery");
  return { name: "power", title: "Power", ...read2, limit: policy2.require_ac_power === true ? "mains" : null };
}
function saver(device2, policy2) {
  const read2 = told(device2.signals.battery_saver, (raw) => raw === true ? "on" : "off");
  return { name: "battery_saver", title: "Battery saver", ...read2, limit: policy2.obey_battery_saver === true ? "off" : null };
}
function idle(device2, policy2) {
  const read2 = told(device2.signals.user_idle_s, (raw) => duration(Number(raw)));
  const limit2 = policy2.require_idle === true ? `at least ${duration(Number(policy2.idle_minutes) * 60)}` : null;
  return { name: "user_idle", title: "Idle time", ...read2, limit: limit2 };
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
    { name: "window", title: "Time on the device", ...clock3, limit: windows > 0 ? `within ${windows === 1 ? "the training window" : `${windows} training windows`}` : null },
    { name: "processes", title: "Blocking programs", ...running, limit: programs.length > 0 ? `${programs.join(", ")} not running` : null },
    daily
  ];
}
function told(signal, show) {
  if (signal === void 0) return { value: null, note: "" };
  if (signal.value === null) return { value: null, note: signal.detail };
  return { value: show(signal.value), note: signal.source };
}
function timeOfDay(time) {
  return time.slice(11, 16);
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
  const found2 = [];
  for (let exponent = last2; exponent >= first; exponent -= stride) found2.push(10 ** exponent);
  return found2;
}
function ticks(range, wanted) {
  const rough = (range.high - range.low) / Math.max(1, wanted);
  if (!(rough > 0) || !Number.isFinite(rough)) return [range.low];
  const power2 = 10 ** Math.floor(Math.log10(rough));
  const step2 = ([1, 2, 5, 10].find((factor) => factor * power2 >= rough) ?? 10) * power2;
  const found2 = [];
  for (let each2 = Math.ceil(range.low / step2); each2 * step2 <= range.high; each2 += 1) {
    found2.push(each2 * step2);
  }
  return found2;
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
var MARGIN = { top: 22, right: 16, bottom: 28, left: 60 };
var LOG_FROM = 50;
var EDGE = 30;
function frameOf(width, dots, { name, most, xName, first, show }) {
  const steps = { low: first, high: dots.reduce((most2, dot) => Math.max(most2, dot.step), first + 1) };
  const x = linear(steps, { low: MARGIN.left, high: width - MARGIN.right });
  return { width, x, steps, xName, show, ...yAxis(dots.map((dot) => dot.value), name, most) };
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
  return { y: linear(range, pixels), yTicks: ticks(range, 5), yName: name };
}
function yRange(low, high, most) {
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  const isFar = low < 0 || low > high * 0.6;
  return { low: isFar ? low - margin : 0, high: Math.min(high + margin, Math.max(most, high)) };
}
function followed2(app, { chart, at, steps, stride, stepAt }) {
  const hover = (step2) => {
    app.state.hover = step2 === null ? null : { chart, step: Math.round(Math.min(steps.high, Math.max(steps.low, step2))) };
    app.draw();
  };
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    hover(stepAt((event.clientX - box.left) / box.width));
  };
  const key = (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move === void 0) return;
    event.preventDefault();
    hover((at ?? steps.high) + move * stride);
  };
  const leave2 = () => hover(null);
  return { role: "img", tabindex: 0, onpointermove: point, onpointerleave: leave2, onkeydown: key, onblur: leave2 };
}
function grid({ width, x, y, steps, xName, show, yTicks, yName }) {
  const bottom = HEIGHT - MARGIN.bottom;
  const right = width - MARGIN.right;
  const labels = distinct(yTicks, show);
  return s(
    "g",
    { class: "grid" },
    yTicks.map((value, at) => [
      s("line", { x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }),
      s("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, labels[at] ?? null)
    ]),
    ticks(steps, Math.max(3, Math.floor((right - MARGIN.left) / 110))).filter(Number.isInteger).map((step2) => {
      const anchor = x(step2) > width - EDGE ? "end" : "middle";
      return s("text", { x: x(step2), y: bottom + 18, "text-anchor": anchor }, count(step2));
    }),
    s("text", { x: 0, y: 12 }, yName),
    s("text", { x: 0, y: bottom + 18 }, xName)
  );
}

// src/views/device/history.ts
var CHART = "device-history";
var HEIGHT2 = 72;
var STRIP_HEIGHT = 14;
var AXIS_HEIGHT = 18;
var NARROWEST = 300;
var GAP = 24;
var TICK_HOURS = 6;
var EDGE2 = 32;
function historyView(app, rules) {
  const told5 = deviceHistory(app);
  return section("The last 24 hours", { id: "history" }, told5 ? filled2(app, told5, rules) : loading(told5));
}
function filled2(app, told5, rules) {
  const count2 = told5.eligible.length;
  const width = app.widthOf("history");
  const columns = Math.max(1, Math.floor((width + GAP) / (NARROWEST + GAP)));
  const at = app.state.hover?.chart === CHART ? Math.round(app.state.hover.step) : null;
  const frame = (wide) => ({ told: told5, count: count2, width: wide, at, x: linear({ low: 0, high: count2 }, { low: 0, high: wide }) });
  const shown2 = limitsOf(rules).filter(({ signal }) => told5.signals[signal]?.values.some((value) => value !== null));
  const column = frame(Math.floor((width - GAP * (columns - 1)) / columns));
  return h(
    "div",
    { class: "history", "data-key": "history" },
    h("p", { class: "quiet", "data-key": "summary" }, summary(told5, at)),
    drawing(app, frame(width), STRIP_HEIGHT, `When training was allowed: ${allowed(told5)}`, strip(frame(width))),
    legend(),
    h("div", { class: "signals" }, shown2.map((limited) => signalView(app, column, limited)))
  );
}
function legend() {
  const keys = [["trained", "trained"], ["allowed", "allowed"], ["held", "not allowed"], ["unknown", "unknown"]];
  return h("p", { class: "legend strip-keys", "data-key": "keys" }, keys.map(([kind, name]) => h("span", { class: `swatch ${kind}` }, name ?? "")));
}
function allowed({ eligible }) {
  const known = eligible.filter((each2) => each2 !== null);
  const share = known.filter(Boolean).length / Math.max(1, known.length);
  return `${Math.round(share * 100)} % of the time the daemon was running`;
}
function summary(told5, at) {
  const { trained_seconds: trained, interval_seconds: length } = told5;
  if (at !== null) {
    const begin2 = Date.parse(told5.since) + at * length * 1e3;
    const state = { true: "allowed", false: "not allowed", null: "unknown" }[String(told5.eligible[at] ?? null)];
    return `${clock(new Date(begin2))}: training was ${state}; trained ${duration(trained[at] ?? 0)} of ${duration(length)}`;
  }
  const sum = trained.reduce((total2, each2) => total2 + each2, 0);
  return `Trained ${duration(sum)}; allowed ${allowed(told5)}.`;
}
function strip({ told: told5, count: count2, x }) {
  const kindAt = (index) => {
    if ((told5.trained_seconds[index] ?? 0) > 0) return "trained";
    return { true: "allowed", false: "held", null: "unknown" }[String(told5.eligible[index] ?? null)] ?? "unknown";
  };
  return runs(count2, kindAt).map(
    ({ kind, from, to: to2 }) => s("rect", { class: kind, x: x(from), y: 0, width: x(to2) - x(from), height: STRIP_HEIGHT })
  );
}
function runs(count2, kindAt) {
  const found2 = [];
  for (let index = 0; index < count2; index += 1) {
    const last2 = found2.at(-1);
    if (last2?.kind === kindAt(index)) last2.to = index + 1;
    else found2.push({ kind: kindAt(index), from: index, to: index + 1 });
  }
  return found2;
}
function signalView(app, frame, { title, signal, show, stop, resume }) {
  const values = frame.told.signals[signal]?.values ?? [];
  const limits = [.../* @__PURE__ */ new Set([stop, resume])].filter((each2) => each2 !== null);
  const known = values.filter((value) => value !== null);
  const highest = Math.max(...known, ...limits, 0) || 1;
  const y = linear({ low: 0, high: highest * 1.08 }, { low: HEIGHT2, high: 0 });
  const now = frame.at === null ? values.at(-1) : values[frame.at];
  const told5 = now === null || now === void 0 ? "unknown" : show(now);
  const limited = stop === null ? "no limit" : `limit ${show(stop)}`;
  const label2 = `${title} over 24 hours: from ${show(Math.min(...known))} to ${show(Math.max(...known))}, ${limited}`;
  return h(
    "figure",
    { "data-key": signal },
    h("figcaption", {}, h("span", {}, title), h("strong", { class: "number" }, told5), h("span", { class: "quiet" }, limited)),
    drawing(app, frame, HEIGHT2, label2, [
      runs(frame.count, (index) => String((frame.told.trained_seconds[index] ?? 0) > 0)).filter(({ kind }) => kind === "true").map(({ from, to: to2 }) => s("rect", { class: "during", x: frame.x(from), y: 0, width: frame.x(to2) - frame.x(from), height: HEIGHT2 })),
      limits.map((limit2) => s("line", { class: limit2 === stop ? "limit" : "limit back", x1: 0, x2: frame.width, y1: y(limit2), y2: y(limit2) })),
      pieces(values).map((piece) => line(piece, frame, y))
    ])
  );
}
function line(piece, { x }, y) {
  const [first] = piece;
  if (first && piece.length === 1) return s("circle", { cx: x(first.index + 0.5), cy: y(first.value), r: 1.5 });
  const points = piece.map(({ index, value }) => `${x(index + 0.5).toFixed(1)},${y(value).toFixed(1)}`);
  return s("polyline", { points: points.join(" ") });
}
function pieces(values) {
  const found2 = [];
  values.forEach((value, index) => {
    if (value === null) return;
    if (index > 0 && values[index - 1] !== null) found2.at(-1)?.push({ index, value });
    else found2.push([{ index, value }]);
  });
  return found2;
}
function drawing(app, frame, height, label2, children) {
  const { width, count: count2, x, at } = frame;
  const steps = { low: 0, high: count2 - 1 };
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${height + AXIS_HEIGHT}`,
      width,
      height: height + AXIS_HEIGHT,
      "aria-label": label2,
      ...followed2(app, { chart: CHART, at, steps, stride: 1, stepAt: (share) => Math.floor(share * count2) })
    },
    children,
    s("line", { class: "base", x1: 0, x2: width, y1: height, y2: height }),
    hours(frame).map(({ index, name }) => [
      s("line", { class: "base", x1: x(index), x2: x(index), y1: height, y2: height + 4 }),
      s("text", { x: x(index), y: height + 15, "text-anchor": "middle" }, name)
    ]),
    at !== null && s("line", { class: "cursor", x1: x(at + 0.5), x2: x(at + 0.5), y1: 0, y2: height })
  );
}
function hours({ told: told5, count: count2, width, x }) {
  const begin2 = Date.parse(told5.since);
  const step2 = told5.interval_seconds * 1e3;
  const next = new Date(begin2);
  next.setHours(Math.ceil((next.getHours() + 1) / TICK_HOURS) * TICK_HOURS, 0, 0, 0);
  const found2 = [];
  for (let time = next.getTime(); time < begin2 + count2 * step2; time += TICK_HOURS * 36e5) {
    const index = (time - begin2) / step2;
    if (x(index) > EDGE2 && x(index) < width - EDGE2) found2.push({ index, name: clock(new Date(time)).split(", ").at(-1) ?? "" });
  }
  return found2;
}

// src/views/parts/form.ts
function limit(name, title, unit, scale) {
  return { name, title, kind: "number", isOptional: true, ...unit ? { unit } : {}, ...scale ? { scale } : {} };
}
function settingsForm(app, form) {
  const changed2 = app.draft(form.name, () => ({}));
  const isChanged = Object.keys(changed2).length > 0;
  const isOff = app.state.pending.has(form.name) || app.state.connection === "lost";
  const leave2 = () => {
    forget(app, form.name);
    form.close?.();
  };
  const submit = async (event) => {
    event.preventDefault();
    const asked = { ...changed2 };
    const fields2 = event.currentTarget;
    if (!await app.act(form.name, form.stale, () => form.send(asked))) return;
    fields2.reset();
    leave2();
  };
  return h(
    "form",
    { class: "form settings", "data-key": form.name, onsubmit: (event) => void submit(event) },
    form.presets === void 0 ? null : presetsView(app, form, changed2),
    form.groups.map(
      (group) => h(
        "fieldset",
        { "data-key": group.title },
        h("legend", { class: form.groups.length === 1 ? "visually-hidden" : null }, group.title),
        h("div", { class: "fields" }, group.settings.map((setting) => field(app, form, setting, changed2)))
      )
    ),
    form.more?.(changed2) ?? null,
    outcome(app, form.name, form.groups.flatMap(({ settings }) => settings.map(({ name }) => `${form.pointer ?? ""}/${name}`))),
    h(
      "div",
      { class: "buttons" },
      form.close !== void 0 && h("button", { type: "reset", onclick: leave2 }, "Close"),
      h("button", { type: "submit", class: "primary", disabled: !isChanged || isOff }, form.save ?? "Save"),
      form.close === void 0 && isChanged && h("button", { type: "reset", onclick: leave2 }, "Discard")
    )
  );
}
function presetsView(app, form, changed2) {
  const fill = (event, values) => {
    event.currentTarget.form?.reset();
    for (const [name, value] of Object.entries(values)) change(form, changed2, name, value);
    app.draw();
  };
  return h(
    "fieldset",
    { "data-key": "presets" },
    h("legend", {}, "Start from a preset"),
    h(
      "div",
      { class: "fields" },
      (form.presets ?? []).map(
        ({ title, about, values }) => h("div", { "data-key": title }, h("button", { type: "button", onclick: (event) => fill(event, values) }, title), h("p", { class: "quiet" }, about))
      )
    )
  );
}
function change(form, changed2, name, value) {
  if (same(value, form.values[name])) delete changed2[name];
  else changed2[name] = value;
}
function forget(app, name) {
  app.state.drafts.delete(name);
  app.state.results.delete(name);
  app.draw();
}
function field(app, form, setting, changed2) {
  const { name, title, unit, kind } = setting;
  const faults2 = faultsAt2(app, form.name, `${form.pointer ?? ""}/${name}`);
  const known = name in changed2 ? changed2[name] : form.values[name];
  const take2 = (value) => {
    change(form, changed2, name, value);
    app.draw();
  };
  return h(
    "label",
    { "data-key": name, class: kind === "flag" ? "check" : null },
    kind === "flag" && control(setting, known, take2, false),
    h("span", {}, title, unit ? h("span", { class: "quiet" }, ` (${unit})`) : null),
    kind !== "flag" && control(setting, known, take2, faults2.length > 0),
    faults2
  );
}
function control({ name, kind, scale = 1, options = [], isOptional, placeholder }, known, take2, isWrong) {
  const read2 = (event) => event.currentTarget.value.trim();
  if (kind === "flag") {
    const flip = (event) => take2(event.currentTarget.checked);
    return h("input", { name, type: "checkbox", checked: known === true, onchange: flip });
  }
  if (kind === "choice") {
    return h(
      "select",
      { name, onchange: (event) => take2(read2(event)) },
      options.map(([value2, words]) => h("option", { value: value2, selected: value2 === known }, words))
    );
  }
  if (kind === "list") {
    const split = (event) => take2(read2(event).split(",").map((part) => part.trim()).filter(Boolean));
    return h("input", { name, type: "text", value: Array.isArray(known) ? known.join(", ") : "", oninput: split });
  }
  if (kind === "text") {
    const value2 = typeof known === "string" ? known : "";
    return h("input", { name, type: "text", value: value2, placeholder: placeholder ?? null, spellcheck: "false", "aria-invalid": isWrong, oninput: (event) => take2(read2(event) || null) });
  }
  if (kind === "time") {
    const change3 = (event) => take2(read2(event) === "" ? null : new Date(read2(event)).toISOString());
    return h("input", { name, type: "datetime-local", value: typeof known === "string" ? localTime(known) : "", "aria-invalid": isWrong, oninput: change3 });
  }
  if (kind === "json") return jsonField(name, known, take2, isWrong);
  const parse2 = (event) => {
    const text3 = read2(event);
    take2(text3 === "" ? null : scale === 1 ? Number(text3) : Math.round(Number(text3) * scale));
  };
  const value = typeof known === "number" ? Number((known / scale).toPrecision(6)) : "";
  const hint = placeholder ?? (isOptional ? "no limit" : null);
  return h("input", { name, type: "number", step: "any", value, placeholder: hint, "aria-invalid": isWrong, oninput: parse2 });
}
function localTime(time) {
  const then = new Date(time);
  return new Date(then.getTime() - then.getTimezoneOffset() * 6e4).toISOString().slice(0, 16);
}
function jsonField(name, known, take2, isWrong) {
  const change3 = (event) => {
    const text4 = event.currentTarget.value.trim();
    try {
      take2(text4 === "" ? null : JSON.parse(text4));
    } catch {
      take2(text4);
    }
  };
  const text3 = known === null || known === void 0 ? "" : JSON.stringify(known, null, 1);
  return h("textarea", { name, rows: 4, spellcheck: "false", "aria-invalid": isWrong, oninput: change3 }, text3);
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
      const day2 = DAYS.indexOf(name);
      for (let at = Math.ceil(first / 60); at * 60 + 60 <= first + length; at += 1) {
        const row2 = grid2[(day2 + Math.floor(at / 24)) % 7];
        if (row2) row2[at % 24] = true;
      }
    }
  }
  return grid2;
}
function windowsOf(grid2) {
  const found2 = /* @__PURE__ */ new Map();
  grid2.forEach((row2, day2) => {
    for (let hour = 0; hour < 24; hour += 1) {
      if (!row2[hour] || hour > 0 && row2[hour - 1]) continue;
      let end = hour;
      while (end < 24 && row2[end]) end += 1;
      const [start, until] = [clock2(hour), clock2(end)];
      const window2 = found2.get(`${start}-${until}`) ?? { days: [], start, end: until };
      window2.days.push(DAYS[day2] ?? "");
      found2.set(`${start}-${until}`, window2);
    }
  });
  return [...found2.values()];
}
function weekView(app, windows, change3) {
  const grid2 = hoursOf(windows);
  const flip = (day2, hours2) => {
    const isOn = hours2.every((hour) => grid2[day2]?.[hour]);
    const next = grid2.map((row2, at) => at === day2 ? row2.map((was, hour) => hours2.includes(hour) ? !isOn : was) : row2);
    change3(windowsOf(next));
  };
  return h(
    "div",
    { class: "week-frame" },
    h("p", { class: "quiet", role: "status" }, windows.length === 0 ? "Every hour is allowed. Click hours of the device’s clock to allow only those." : `${said(windows)}, on the device’s clock`),
    scrolled(
      "Week",
      h(
        "table",
        { class: "week" },
        h("thead", {}, h("tr", {}, h("td", {}), HOURS.map((hour) => h("th", { scope: "col" }, hour % 3 === 0 ? String(hour) : "")))),
        h(
          "tbody",
          {},
          DAYS.map(
            (name, day2) => h(
              "tr",
              { "data-key": name },
              h("th", { scope: "row" }, h("button", { type: "button", class: "plain", onclick: () => flip(day2, HOURS) }, name)),
              HOURS.map(
                (hour) => h(
                  "td",
                  {},
                  h("button", {
                    type: "button",
                    class: grid2[day2]?.[hour] ? "hour on" : "hour",
                    "aria-pressed": grid2[day2]?.[hour] ? "true" : "false",
                    "aria-label": `${name} ${clock2(hour)}`,
                    disabled: app.state.connection === "lost",
                    onclick: () => flip(day2, [hour])
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
var STALE = ["/v1/policy", "/v1/device", "/v1/jobs"];
var fixed = (name, title, unit) => ({ name, title, kind: "number", ...unit ? { unit } : {} });
var flag = (name, title) => ({ name, title, kind: "flag" });
var GROUPS = [
  {
    title: "Power",
    settings: [
      flag("require_ac_power", "Train only on mains power"),
      flag("obey_battery_saver", "Stop while battery saver is on"),
      limit("min_battery_percent", "Minimum battery level", "%"),
      limit("resume_battery_percent", "Resume at", "%")
    ]
  },
  {
    title: "Users and other programs",
    settings: [
      flag("require_idle", "Train only while the device is idle"),
      fixed("idle_minutes", "Idle after", "minutes without input"),
      limit("max_foreign_cpu_percent", "Maximum CPU use by other programs", "% of all processors"),
      flag("download_on_metered", "Ask followed sources over metered networks"),
      { name: "blocking_processes", title: "Wait while these programs run", unit: "names, comma-separated", kind: "list" }
    ]
  },
  {
    title: "Load",
    settings: [
      limit("max_cpu_pressure_percent", "Maximum CPU pressure", "% of the time"),
      limit("max_memory_pressure_percent", "Maximum memory pressure", "% of the time"),
      limit("max_io_pressure_percent", "Maximum I/O pressure", "% of the time"),
      fixed("grace_seconds", "Stop when exceeded for", "seconds"),
      fixed("settle_seconds", "Resume when back to normal for", "seconds"),
      fixed("suspend_in_memory_seconds", "Keep a stopped job in memory for", "seconds")
    ]
  },
  {
    title: "Temperature, memory, disk",
    settings: [
      limit("max_temperature_c", "Maximum temperature", "°C"),
      limit("resume_temperature_c", "Resume at", "°C"),
      limit("min_free_memory_bytes", "Minimum free memory", "MiB", MIB),
      limit("resume_free_memory_bytes", "Resume at", "MiB", MIB),
      limit("min_free_disk_bytes", "Minimum free disk space", "MiB", MIB),
      limit("resume_free_disk_bytes", "Resume at", "MiB", MIB)
    ]
  },
  {
    title: "Resources for training",
    settings: [
      limit("max_minutes_per_day", "Maximum training per day", "minutes"),
      fixed("max_threads_busy", "Threads while in use"),
      fixed("max_threads_idle", "Threads while idle"),
      { name: "nice", title: "Niceness", unit: "0 to 19, higher yields more", kind: "number" },
      limit("memory_limit_bytes", "Memory limit of child processes", "MiB", MIB)
    ]
  }
];
var AT_ANY_TIME = { require_ac_power: true, require_idle: false, max_minutes_per_day: null, windows: [] };
var PRESETS = [
  {
    title: "Laptop",
    about: "On mains power from a battery level of 50 %; stops below 30 % and in battery saver.",
    values: { ...AT_ANY_TIME, min_battery_percent: 30, resume_battery_percent: 50, obey_battery_saver: true }
  },
  {
    title: "Always on",
    about: "A server or a desktop: at any time on mains power.",
    values: { ...AT_ANY_TIME, min_battery_percent: null, resume_battery_percent: null, obey_battery_saver: false }
  },
  {
    title: "Only at night",
    about: "Every day from 22:00 to 06:00, on mains power.",
    values: { ...AT_ANY_TIME, windows: [{ days: DAYS, start: "22:00", end: "06:00" }] }
  }
];
function forecastView(app, changed2) {
  const shown2 = app.draft("policy-forecast", () => ({ forecast: null }));
  shown2.forecast = forecast(app, { ...changed2 }) ?? shown2.forecast;
  const { check, faults: faults2 } = shown2.forecast ?? { check: null, faults: [] };
  const verdict2 = check === null ? "Not a valid policy" : check.eligible ? "A job could train now" : "No job could train now";
  return h(
    "div",
    { class: `forecast ${check?.eligible ? "good" : "held"}`, role: "status", "data-key": "forecast" },
    h("p", {}, h("strong", {}, shown2.forecast === null ? "Checking …" : verdict2), h("span", { class: "quiet" }, " with these unsaved changes")),
    check !== null && !check.eligible && blockers(check.blocked_by),
    faults2.length > 0 && h("ul", {}, faults2.map(({ pointer, detail: detail2 }) => h("li", {}, h("code", {}, pointer), ` ${detail2}`)))
  );
}
function policyView(app, rules) {
  return section(
    "Policy",
    { id: "policy" },
    settingsForm(app, {
      name: "policy",
      groups: GROUPS,
      values: rules,
      presets: PRESETS,
      stale: STALE,
      more: (changed2) => [
        h("fieldset", { "data-key": "windows" }, h("legend", {}, "Hours of the week"), weekView(app, changed2.windows ?? rules.windows, (windows) => {
          changed2.windows = windows;
          app.draw();
        })),
        Object.keys(changed2).length > 0 && forecastView(app, changed2)
      ],
      send: (changed2) => app.api.put("/v1/policy", changed2).then(() => "Policy saved.")
    }),
    h("div", { class: "buttons" }, remover(app, {
      label: "Restore the defaults …",
      title: "Restore the default policy?",
      detail: "Every setting returns to its default, including the hours of the week.",
      yes: "Restore the defaults",
      name: "reset-policy",
      remove: () => app.api.remove("/v1/policy"),
      stale: STALE,
      said: "Default policy restored."
    }))
  );
}

// src/views/device/device.ts
var STALE2 = ["/v1/device", "/v1/jobs"];
var SNOOZES = [
  { label: "Snooze 30 min", body: { minutes: 30 } },
  { label: "Snooze 2 h", body: { minutes: 120 } },
  { label: "Snooze until morning", body: { until: "morning" } }
];
function deviceView(app) {
  const [now, rules] = [device(app), policy(app)];
  if (now === void 0 || rules === void 0) return [heading("Device"), loading()];
  if (now === null || rules === null) return [heading("Device")];
  return [
    heading("Device"),
    verdictView(app, now),
    section("Conditions", { id: "conditions" }, conditionsView(now, rules, { isShort: false })),
    historyView(app, rules),
    policyView(app, rules)
  ];
}
function verdictView(app, now) {
  const asked = (path, method, body) => async () => {
    await (method === "post" ? app.api.post(path, body) : app.api.remove(path));
    return null;
  };
  const isByHand = now.paused || now.snoozed_until !== null;
  return h(
    "section",
    { class: `verdict ${now.eligible ? "good" : "held"}`, "data-key": "verdict", "aria-label": "Verdict" },
    h("div", { class: "verdict-head" }, h("p", {}, h("strong", {}, verdict(now)), `${isByHand ? ", not allowed" : ""} since ${clock(now.since)}`)),
    h(
      "div",
      { class: "buttons" },
      now.snoozed_until === null && !now.paused ? SNOOZES.map(
        ({ label: label2, body }) => press(app, { name: `snooze:${label2}`, label: label2, stale: STALE2, run: asked("/v1/snooze", "post", body) })
      ) : null,
      now.snoozed_until === null ? null : press(app, { name: "unsnooze", label: "End snooze", stale: STALE2, run: asked("/v1/snooze", "remove") }),
      now.paused ? press(app, { name: "resume-all", label: "Resume all training", stale: STALE2, run: asked("/v1/resume", "post") }) : press(app, { name: "pause-all", label: "Pause all training", stale: STALE2, run: asked("/v1/pause", "post") })
    ),
    !now.eligible && blockers(now.blocked_by)
  );
}
function verdict(now) {
  if (now.eligible) return "Training is allowed now";
  if (now.paused) return "All training is paused";
  if (now.snoozed_until !== null) return "Training is snoozed";
  return "Training is on hold";
}
function conditionsView(now, rules, { isShort }) {
  const shown2 = conditionsOf(now, rules).filter(({ limit: limit2, isBlocking }) => !isShort || limit2 !== null || isBlocking);
  const columns = ["Condition", "Now", "Limit", ...isShort ? [] : ["Source"]];
  return table("Table of conditions", columns, shown2.map((each2) => conditionRow(each2, isShort)), "conditions");
}
function conditionRow({ name, title, value, note, limit: limit2, isBlocking, share }, isShort) {
  const state = limit2 === null ? "off" : isBlocking ? "blocks" : value === null ? "unknown" : "holds";
  const said2 = { off: "no limit", blocks: "blocks training", unknown: "unknown, does not block training", holds: "met" }[state];
  return h(
    "tr",
    { class: state, "data-key": name },
    h("th", { scope: "row" }, h("span", { class: `sign ${state}`, role: "img", "aria-label": said2 }), title),
    h(
      "td",
      { class: "number", title: note === "" ? null : note },
      value ?? "unknown",
      share !== null && h("meter", { min: 0, max: 1, value: share, "aria-hidden": "true" })
    ),
    h("td", {}, limit2 ?? "–"),
    !isShort && h("td", { class: "quiet" }, note)
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
  const drawn2 = lines.some(({ dots }) => dots.length > 1) ? lines : [];
  if (drawn2.length === 0) return h("p", { class: "quiet" }, `The ${chart.title} curve takes at least two values.`);
  const { title, isShare: isShare2, by = { name: "step", first: 0 }, width = app.width } = chart;
  const axes = { name: title, most: isShare2 ? 1 : Infinity, xName: by.name, first: by.first, show: isShare2 ? percent : decimal };
  const frame = frameOf(width, drawn2.flatMap(({ dots }) => dots), axes);
  const step2 = app.state.hover?.chart === chart.id ? app.state.hover.step : null;
  return h("figure", { class: "curve" }, drawing2(app, chart, drawn2, frame, step2), legend2(drawn2, frame, step2));
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
function drawing2(app, chart, lines, frame, step2) {
  const { width, x, steps } = frame;
  const stepAt = (share) => steps.low + (share * width - MARGIN.left) / (x(steps.high) - MARGIN.left) * (steps.high - steps.low);
  const stride = Math.max(1, Math.floor((steps.high - steps.low) / 50));
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${HEIGHT}`,
      width,
      height: HEIGHT,
      "aria-label": summary2(chart, lines, frame.show),
      ...followed2(app, { chart: chart.id, at: step2, steps, stride, stepAt })
    },
    grid(frame),
    lines.map((line2) => lineView(line2, frame, chart.hollow)),
    step2 !== null && s("line", { class: "cursor", x1: x(step2), x2: x(step2), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }),
    step2 !== null && lines.map((line2) => {
      const dot = nearest(line2.dots, step2);
      return s("circle", { class: `${line2.kind} at`, cx: x(dot.step), cy: frame.y(dot.value), r: 3.5 });
    })
  );
}
function lineView({ kind, isOther, raw, dots }, { x, y, width }, hollow) {
  const most = Math.max(60, Math.floor(width / 2));
  const path = (list2) => thinned(list2, most).map(({ step: step2, value }) => `${x(step2).toFixed(1)},${within(y(value)).toFixed(1)}`).join(" ");
  return s(
    "g",
    { class: `${kind} ${isOther ? "other" : ""}` },
    raw !== dots && !isOther && s("polyline", { class: "raw", points: path(raw) }),
    s("polyline", { points: path(dots) }),
    kind === "validation" && !isOther && dots.length <= MOST_MARKERS && dots.map((dot) => s("circle", { class: hollow?.has(dot.step) ? "hollow" : null, cx: x(dot.step), cy: y(dot.value), r: hollow ? 4 : 2.5 }))
  );
}
function within(pixels) {
  return Math.min(HEIGHT - MARGIN.bottom, Math.max(MARGIN.top - 8, pixels));
}
function legend2(lines, { xName, steps, show }, step2) {
  return h(
    "figcaption",
    { class: "legend" },
    h("span", { class: "quiet number" }, `${xName} ${count(step2 ?? steps.high)}`),
    lines.map(
      ({ kind, name, isOther, dots }) => h(
        "span",
        { class: `key ${kind} ${isOther ? "other" : ""}`, "data-key": name },
        `${name} `,
        h("strong", { class: "number" }, show(nearest(dots, step2 ?? Infinity).value))
      )
    )
  );
}
function nearest(dots, step2) {
  let found2 = dots[0] ?? { step: 0, value: NaN };
  for (const dot of dots) {
    if (dot.step > step2) break;
    found2 = dot;
  }
  return found2;
}
function summary2({ title }, lines, show) {
  const told5 = lines.map(({ name, dots }) => {
    const [first, last2] = [dots[0]?.value ?? 0, dots.at(-1)?.value ?? 0];
    return `${name} ${title} went from ${show(first)} to ${show(last2)}`;
  });
  return `${title.charAt(0).toUpperCase()}${title.slice(1)} curve: ${told5.join(", ")}.`;
}

// src/views/jobs/log.ts
function logView(app, { id, state, restarts }) {
  const turned = app.draft(`log:${id}`, () => ({}));
  const isOpen = turned.isOpen ?? (state === "failed" || restarts > 0);
  const turn = () => {
    turned.isOpen = !isOpen;
    app.draw();
  };
  return section(
    "Log",
    { id: "log" },
    isOpen && linesView(app, id),
    h("div", { class: "buttons" }, opener("turn-log", isOpen ? "Hide the log" : "Show the log", turn))
  );
}
function linesView(app, id) {
  const log = jobLog(app, id);
  if (log === void 0) return loading();
  const lines = log?.lines ?? [];
  if (lines.length === 0) return h("p", { class: "quiet" }, "No output.");
  return scrolled(
    "Lines of the log",
    h(
      "ol",
      { class: "log" },
      lines.map(
        ({ at, source, text: text3 }) => h("li", { class: source }, h("time", { datetime: at, class: "quiet" }, new Date(at).toTimeString().slice(0, 8)), h("code", {}, text3))
      )
    )
  );
}

// src/views/parts/filters.ts
function pagesView(app, path, { items, isWhole }, empty, show) {
  if (!items) return loading(items);
  return [items.length === 0 ? h("p", { class: "quiet" }, empty) : show(items), moreButton(app, path, isWhole)];
}
function moreButton(app, path, isWhole) {
  if (isWhole) return null;
  const more = () => {
    shownOf(app, path).pages += 1;
    app.draw();
  };
  return h("div", { class: "buttons" }, opener("more", "Show more", more));
}
function filters(...fields2) {
  return h("div", { class: "fields filters", "data-key": "filters" }, fields2);
}
function choice(title, now, options, change3, inline = null) {
  const chosen3 = (event) => change3(event.currentTarget.value);
  const asked = now && !options.some(([value]) => value === now) ? [[now, now]] : [];
  return h(
    "label",
    { "data-key": inline ?? title, class: inline === null ? null : "inline" },
    h("span", { class: inline === null ? null : "quiet" }, title),
    h("select", { onchange: chosen3 }, [...options, ...asked].map(([value, words]) => h("option", { value, selected: value === (now ?? "") }, words)))
  );
}
function modelChoice(app, now, change3) {
  return choice("Model", now, [["", "all"], ...(models(app) ?? []).map(({ name }) => [name, name])], change3);
}
function text(title, now, placeholder, change3) {
  const typed2 = (event) => change3(event.currentTarget.value.trim());
  return h(
    "label",
    { "data-key": title },
    h("span", {}, title),
    h("input", { type: "search", value: now ?? "", placeholder, autocomplete: "off", onchange: typed2 })
  );
}

// src/views/jobs/buttons.ts
var JOBS = ["/v1/jobs", "/v1/device"];
function jobButtons(app, job2) {
  const about = `job ${job2.id}`;
  const move = (verb, label2, body) => press(app, {
    name: `${verb}${body ? "-anyway" : ""}:${job2.id}`,
    label: label2,
    about,
    stale: JOBS,
    run: () => app.api.post(`/v1/jobs/${job2.id}/${verb}`, body).then(() => null)
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
  const ask2 = () => confirm(app, {
    title: `Cancel job ${job2.id}?`,
    detail: "It stops after the current step and produces no version. It cannot be resumed.",
    no: "Keep it",
    yes: "Cancel the job",
    name: `cancel:${job2.id}`,
    stale: JOBS,
    run: () => app.api.post(`/v1/jobs/${job2.id}/cancel`).then(() => `Job ${job2.id} cancelled.`)
  });
  const isOff = app.state.pending.has(`cancel:${job2.id}`) || app.state.connection === "lost";
  return opener(`ask-cancel:${job2.id}`, "Cancel", ask2, `job ${job2.id}`, null, isOff);
}

// src/views/pinned.ts
function pinnedView(app) {
  const running = unfinished(app, RUNNING) ?? [];
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
  if (step2 === 0 && total2 === null) return "starting";
  const steps = total2 === null ? `step ${count(step2)}` : `step ${count(step2)} of ${count(total2)}`;
  const current = step2 === total2 ? Math.max(1, epoch) : epoch + 1;
  const turn = epochs === null ? `epoch ${count(current)}` : `epoch ${count(Math.min(current, epochs))} of ${count(epochs)}`;
  const left = eta !== null && job2.state === "running" ? `, about ${duration(eta)} left` : "";
  return `${steps}, ${turn}${left}`;
}

// src/views/parts/spark.ts
var WIDTH = 96;
var HEIGHT3 = 22;
function sparkline(values, label2, marked2 = []) {
  if (values.length < 2) return h("span", { class: "quiet" }, "–");
  const range = { low: Math.min(...values), high: Math.max(...values) };
  const margin = (range.high - range.low || 1) * 0.15;
  const y = linear({ low: range.low - margin, high: range.high + margin }, { low: HEIGHT3, high: 0 });
  const x = linear({ low: 0, high: values.length - 1 }, { low: 3, high: WIDTH - 3 });
  const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  return s(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT3}`, width: WIDTH, height: HEIGHT3, role: "img", "aria-label": label2 },
    s("polyline", { points: points.join(" ") }),
    marked2.length > 0 && values.map(
      (value, at) => s("circle", { class: marked2[at] ? "on" : "off", cx: x(at), cy: y(value), r: 2 })
    )
  );
}

// src/views/versions/course.ts
function measured(model2, list2) {
  const known = list2.flatMap((version) => {
    const metric = measureOf(model2, list2, version);
    return metric === null ? [] : [{ version, metric }];
  });
  return known.reverse();
}
function courseView(app, model2, list2) {
  const known = measured(model2, list2);
  const [first, second] = known;
  if (first === void 0 || second === void 0) return null;
  const refused = known.filter(({ version }) => !version.promoted).map(({ version }) => version.version);
  return section(
    "Metric by version",
    { id: "course" },
    chartView(app, {
      id: `course-${model2.name}`,
      title: first.metric.name,
      keys: { validation: "metric" },
      points: known.map(({ version, metric }) => ({ step: version.version, epoch: 0, values: { metric: metric.after } })),
      by: { name: "version", first: first.version.version },
      width: app.widthOf("course"),
      isShare: first.metric.isShare,
      hollow: new Set(refused)
    }),
    refused.length > 0 && h("p", { class: "quiet", "data-key": "hollow" }, "Hollow: not promoted.")
  );
}

// src/views/models/train.ts
var FIELDS2 = [
  { name: "epochs", title: "Epochs", step: "1", fallback: "automatic" },
  { name: "max_seconds", title: "Time limit", unit: "seconds", step: "any", fallback: "no limit" },
  { name: "batch_size", title: "Batch size", unit: "samples", step: "1", fallback: "automatic, else 32" },
  { name: "learning_rate", title: "Learning rate", step: "any", fallback: "automatic, else 0.001" },
  { name: "early_stopping_patience", title: "Early-stopping patience", unit: "epochs", step: "1", fallback: "automatic" },
  { name: "seed", title: "Seed", step: "1", fallback: "random" }
];
function openTraining(app, model2, checkpoint = null) {
  const name = `train-dialog:${model2.name}`;
  confirm(app, {
    title: `Train ${model2.name}`,
    detail: h("span", { class: "quiet" }, "Empty fields use the value that they show."),
    fields: () => [
      h("div", { class: "fields" }, FIELDS2.map((field3) => fieldView(app, model2, name, field3)), startField(checkpoint)),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "ignore_policy" }), "Train now, ignoring the policy")
    ],
    places: FIELDS2.map((field3) => `/${field3.name}`),
    no: "Close",
    yes: "Queue the job",
    kind: "primary",
    name,
    stale: ["/v1/jobs", "/v1/device"],
    run: (given) => queue(app, model2.name, bodyOf(given))
  });
}
async function queue(app, model2, body) {
  const { id } = await app.api.post(modelPath(model2, "/jobs"), body);
  return { text: `Job ${id} queued.`, link: to(["jobs", id]) };
}
function fieldView(app, model2, form, { name, title, unit, step: step2, fallback }) {
  const set = model2.hyperparameters[name];
  const faults2 = faultsAt2(app, form, `/${name}`);
  return h(
    "label",
    { "data-key": name },
    h("span", {}, title, unit ? h("span", { class: "quiet" }, ` (${unit})`) : null),
    h("input", {
      name,
      type: "number",
      step: step2,
      placeholder: set === void 0 || set === null ? fallback : `${String(set)}, the model’s default`,
      "aria-invalid": faults2.length > 0
    }),
    faults2
  );
}
function startField(checkpoint) {
  return h(
    "label",
    { "data-key": "from" },
    h("span", {}, "Start from"),
    h(
      "select",
      { name: "from" },
      checkpoint !== null && h("option", { value: checkpoint.id }, `checkpoint ${checkpoint.id}, job ${checkpoint.job_id}, step ${checkpoint.step}`),
      h("option", { value: "latest" }, "the latest version"),
      h("option", { value: "base" }, "the model as registered")
    )
  );
}
function bodyOf(given) {
  const from = given.get("from");
  const body = { from: Number(from) || from, ignore_policy: given.has("ignore_policy") };
  for (const field3 of FIELDS2) {
    const text3 = String(given.get(field3.name) ?? "").trim();
    if (text3 !== "") body[field3.name] = Number(text3);
  }
  return body;
}

// src/views/models/models.ts
var COLUMNS = [
  { order: "name", title: "Name" },
  { order: "samples", title: "Samples" },
  { order: null, title: "Version" },
  { order: "metric", title: "Metric" },
  { order: null, title: "Trend" },
  { order: "changed", title: "Changed" },
  { order: null, title: "" }
];
function modelsPage(app) {
  const all = models(app);
  if (all === void 0) return [heading("Models"), loading()];
  if (all === null) return [heading("Models")];
  if (all.length === 0) return [heading("Models", addLink()), addModelHint()];
  const { query } = app.route;
  const search2 = (query.get("q") ?? "").toLowerCase();
  const found2 = all.filter(({ name }) => name.toLowerCase().includes(search2));
  const isEmpty = (model2) => total(model2) === 0;
  const rows = found2.filter((model2) => !isEmpty(model2)).map((model2) => rowOf(app, model2));
  const order = query.get("sort") ?? "name";
  const isDown = query.has("down");
  rows.sort((a, b) => (isDown ? -1 : 1) * compared(a, b, order));
  const empty = found2.filter(isEmpty);
  return [
    heading("Models", searchField(app, search2), addLink()),
    h("p", { class: "visually-hidden", role: "status" }, plural(found2.length, "model")),
    rows.length > 0 ? table2(app, rows, order, isDown) : null,
    found2.length === 0 ? h("p", { class: "quiet" }, `No model has a name with “${search2}” in it.`) : null,
    empty.length > 0 ? emptyView(empty, rows.length === 0) : null
  ];
}
function addModelHint() {
  return h(
    "section",
    { class: "card empty", "data-key": "empty", "aria-label": "No models yet" },
    h("p", {}, "No models yet. ", h("a", { href: to(["add"]) }, "Add one"), " by dropping a forward ONNX file, or from a terminal:"),
    h("pre", {}, h("code", {}, "honed models add base.onnx --name digits --loss cross_entropy")),
    h("p", { class: "quiet" }, "or with POST /v1/models from any app; it appears here immediately.")
  );
}
function addLink() {
  return h("a", { class: "button", href: to(["add"]), "data-key": "add" }, "Add a model");
}
function rowOf(app, model2) {
  const known = versions(app, model2.name) ?? void 0;
  const fetched = known ? latest(app, model2, known) : null;
  const metric = fetched && measureOf(model2, known ?? [], fetched);
  return { model: model2, versions: known, newest: known?.[0] ?? null, latest: fetched, metric };
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
function searchField(app, search2) {
  const { query } = app.route;
  return h("input", {
    type: "search",
    "aria-label": "Search models",
    placeholder: "Search",
    value: search2,
    oninput: (event) => {
      const field3 = event.currentTarget;
      app.go(to(["models"], { q: field3.value, sort: query.get("sort"), down: query.get("down") }), { isSame: true });
    }
  });
}
function table2(app, rows, order, isDown) {
  return h(
    "div",
    { class: "card", "data-key": "table" },
    scrolled(
      "Models",
      h(
        "table",
        { class: "models" },
        h("thead", {}, h("tr", {}, COLUMNS.map((column) => columnHead(app, column, order, isDown)))),
        h("tbody", {}, rows.map((row2) => modelRow(app, row2)))
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
function modelRow(app, { model: model2, versions: known, newest, latest: fetched, metric }) {
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
    h("td", {}, versionCell(newest, fetched)),
    h("td", { class: "number" }, metric && h("span", { title: `validation ${metric.name}` }, shown(metric))),
    h("td", {}, courseOf(model2, known ?? [])),
    h("td", { class: "quiet" }, newest ? when(newest.created_at) : null),
    h("td", { class: "act" }, trainButton(app, name))
  );
}
function versionCell(newest, fetched) {
  const isNewest = newest?.version === fetched?.version;
  return [
    fetched && [`${fetched.version} `, (fetched.job_id !== null || !isNewest) && badge("latest", "latest")],
    newest && !isNewest && [" ", newest.promoted ? badge("queued", `${newest.version} newest`) : badge("held", `${newest.version} not promoted`)]
  ];
}
function shown({ isShare: isShare2, after }) {
  return isShare2 ? percent(after) : decimal(after);
}
function courseOf(model2, known) {
  const judged = measured(model2, known);
  const values = judged.map(({ metric }) => metric.after);
  const [name] = judged.map(({ metric }) => metric.name);
  const label2 = `${name ?? "metric"} from ${decimal(values[0] ?? 0)} to ${decimal(values.at(-1) ?? 0)}`;
  return sparkline(values, label2, judged.map(({ version }) => version.promoted));
}
function trainButton(app, name) {
  return press(app, {
    name: `train:${name}`,
    label: "Train",
    about: name,
    stale: ["/v1/jobs", "/v1/device"],
    run: () => queue(app, name, {})
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
var JOBS_SHOWN = 8;
function overviewPage(app) {
  const [now, rules, waiting, all, { items: past }] = [device(app), policy(app), unfinished(app, WAITING), models(app), ended(app, endedPath())];
  if (waiting === void 0 || past === void 0 || all === void 0) return [heading("Overview"), loading()];
  return [
    heading("Overview"),
    now ? verdictView(app, now) : null,
    driftsView(app, all ?? []),
    h(
      "div",
      { class: "columns", "data-key": "columns" },
      h(
        "div",
        { class: "stack" },
        waiting && waitingView(app, waiting),
        all?.length === 0 ? addModelHint() : past && outcomesView(past)
      ),
      h(
        "div",
        { class: "stack" },
        now && rules ? section("Conditions", { id: "conditions" }, conditionsView(now, rules, { isShort: true })) : null,
        all && storageView(app, all)
      )
    )
  ];
}
function driftsView(app, all) {
  return drifts(app, all).map(
    ({ model: model2, created_at: at, data }) => h(
      "p",
      { class: "notice held", "data-key": `drift-${model2}` },
      h("span", {}, "Recent inputs of ", h("a", { href: to(["models", model2 ?? ""]) }, model2), ` differ from those that version ${String(data.version)} was trained on, first noticed `, when(at), ".")
    )
  );
}
function waitingView(app, waiting) {
  const hidden = waiting.length - JOBS_SHOWN;
  return section(
    "Waiting",
    { id: "waiting" },
    waiting.length === 0 ? h("p", { class: "quiet" }, "No jobs are waiting.") : h("ul", { class: "rows" }, waiting.slice(0, JOBS_SHOWN).map((job2) => queueRow(app, job2))),
    hidden > 0 && h("p", { class: "quiet" }, "and ", h("a", { href: to(["jobs"]) }, plural(hidden, "more job")))
  );
}
function queueRow(app, job2) {
  const next = job2.state === "running" ? progressText(job2) : "Next in line.";
  return h(
    "li",
    { "data-key": `job-${job2.id}` },
    h("div", { class: "row-head" }, jobLink(job2), badge(job2.state), h("div", { class: "buttons" }, jobButtons(app, job2))),
    job2.blocked_by.length > 0 && job2.state !== "running" ? blockers(job2.blocked_by) : h("p", { class: "quiet" }, next)
  );
}
function jobLink(job2) {
  return h("p", {}, h("a", { href: to(["jobs", job2.id]) }, h("strong", {}, job2.model), ` job ${job2.id}`));
}
function outcomesView(past) {
  return section(
    "Recent jobs",
    { id: "last-jobs" },
    past.length === 0 ? h("p", { class: "quiet" }, "No jobs have finished yet.") : h("ul", { class: "rows" }, past.slice(0, JOBS_SHOWN).map(outcomeRow))
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
  const full = all.filter((model2) => total(model2) > 0);
  const sizes = full.map((model2) => ({ model: model2, size: stats(app, model2.name)?.size_bytes ?? null })).sort((a, b) => (b.size ?? 0) - (a.size ?? 0)).slice(0, 6);
  const largest = Math.max(1, ...sizes.map(({ size }) => size ?? 0));
  return section(
    "Samples",
    { id: "storage" },
    sizes.length === 0 ? h("p", { class: "quiet" }, "No samples yet.") : h("ul", { class: "bars" }, sizes.map(({ model: model2, size }) => storageRow(model2, size, largest))),
    full.length > sizes.length && h("p", { class: "quiet" }, `and ${plural(full.length - sizes.length, "more model")}`)
  );
}
function storageRow(model2, size, largest) {
  const { name, quota: { max_bytes: limit2 } } = model2;
  return h(
    "li",
    { "data-key": name },
    h("a", { href: to(["models", name]) }, name),
    h("span", { class: "quiet number" }, count(total(model2)), size !== null && ` · ${bytes(size)}${limit2 === null ? "" : ` of ${bytes(limit2)}`}`),
    size !== null && h("meter", { min: 0, max: limit2 ?? largest, value: size, "aria-label": `Storage used by ${name}` })
  );
}

// src/views/jobs/job.ts
function jobPage(app, id) {
  const known = Number.isInteger(id) && id > 0 ? job(app, id) : null;
  if (known === void 0) return [heading(`Job ${id}`), loading()];
  if (app.resources.isRefused(`/v1/jobs/${id}`)) return [heading(`Job ${id}`)];
  if (known === null) return missing("Job", to(["jobs"]), "All jobs");
  const points = curve(app, known) ?? [];
  const metric = metricOf(app, known, points);
  return [
    head(app, known),
    known.state === "paused" ? progressView(known) : null,
    known.blocked_by.length > 0 ? blockers(known.blocked_by) : null,
    known.error !== null ? h("p", { class: "notice bad", "data-key": "error" }, known.error.detail) : null,
    known.metrics.reason !== null ? h("p", { class: "reason" }, known.metrics.reason) : null,
    known.metrics.warnings.map((warning) => h("p", { class: "notice held", "data-key": warning }, warning)),
    known.state === "failed" ? logView(app, known) : null,
    h("dl", { class: "facts" }, facts(known, points, metric)),
    curvesView(app, known, points, metric),
    h("div", { class: "columns", "data-key": "columns" }, choicesView(known), settingsView(known)),
    known.state === "failed" || known.state === "queued" ? null : logView(app, known)
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
  const by = known.trigger === "request" ? "requested" : `started by ${known.trigger},`;
  const parts = [`${by} `, when(known.created_at)];
  if (known.ignore_policy) parts.push(", ignoring the policy");
  if (known.finished_at !== null) parts.push(", finished ", when(known.finished_at));
  if (known.engine !== null) parts.push(`, trained by ${known.engine}`);
  return parts;
}
function progressView(known) {
  return h("div", { class: "progress", "data-key": "progress" }, progressBar(known), h("p", { class: "quiet" }, progressText(known)));
}
function metricOf(app, known, points) {
  const judged = model(app, known.model);
  const names = judged ? judgedBy(judged).filter((name) => name !== "loss") : [];
  return names.find((name) => last(points, `validation_${name}`) !== null) ?? null;
}
function facts(known, points, metric) {
  const { samples_per_second: speed } = known.progress;
  const train = isOver(known) ? known.metrics.train_loss : latestMean(seriesOf(points, "train_loss"));
  const loss = last(points, "validation_loss");
  const measured2 = metric === null ? null : last(points, `validation_${metric}`);
  return [
    train !== null && fact(isOver(known) ? "training loss, last epoch" : "training loss, running mean", decimal(train)),
    loss !== null && fact("validation loss", decimal(loss)),
    metric !== null && measured2 !== null && fact(`validation ${metricWords(metric)}`, isShare(metric) ? percent(measured2) : decimal(measured2)),
    speed !== null && speed > 0 && fact("samples per second", count(speed)),
    known.version !== null && fact("result", h("a", { href: to(["models", known.model]) }, `version ${known.version}`)),
    known.restarts > 0 && fact("restarts", count(known.restarts))
  ];
}
function last(points, key) {
  for (let index = points.length - 1; index >= 0; index -= 1) {
    const value = points[index]?.values[key];
    if (value !== void 0) return value;
  }
  return null;
}
function curvesView(app, known, points, metric) {
  const otherId = Number(app.route.query.get("with"));
  const other = otherId > 0 ? job(app, otherId) : null;
  const others = other ? curve(app, other) ?? [] : [];
  const words = metric === null ? "" : metricWords(metric);
  const overlaid2 = other ? { name: `job ${other.id}`, points: others } : null;
  return h(
    "div",
    { class: "charts", "data-key": "charts" },
    section(
      "Loss",
      { id: "loss" },
      chartView(app, { id: `loss-${known.id}`, title: "loss", keys: { train: "train_loss", validation: "validation_loss" }, points, overlaid: overlaid2 })
    ),
    metric === null ? null : section(
      words.charAt(0).toUpperCase() + words.slice(1),
      { id: "metric" },
      chartView(app, { id: `metric-${known.id}`, title: words, keys: { validation: `validation_${metric}` }, points, overlaid: overlaid2, isShare: isShare(metric) })
    ),
    overlayField(app, known)
  );
}
function overlayField(app, known) {
  const others = (ended(app, endedPath(known.model)).items ?? []).filter(({ id }) => id !== known.id);
  if (others.length === 0) return null;
  const options = others.map(({ id }) => [String(id), `job ${id}`]);
  const choose = (id) => app.go(to(["jobs", known.id], { with: id }), { isSame: true });
  return choice("Compare with", app.route.query.get("with"), [["", "no other job"], ...options], choose, "overlay");
}
function choicesView({ choices }) {
  const chosen3 = Object.entries(choices);
  if (chosen3.length === 0) return null;
  return section(
    "Chosen automatically",
    { id: "choices" },
    pairs(chosen3)
  );
}
function settingsView({ hyperparameters }) {
  const set = Object.entries(hyperparameters).filter(([, value]) => value !== null);
  return section(
    "Hyperparameters",
    { id: "hyperparameters" },
    pairs(set)
  );
}

// src/views/jobs/jobs.ts
function jobsPage(app) {
  const wanted = app.route.query.get("model") || null;
  const path = endedPath(wanted);
  const queues = [RUNNING, WAITING].map((each2) => unfinished(app, each2));
  const { items: past, isWhole } = ended(app, path);
  const title = heading("Jobs", h("a", { href: to(["system", "events"], { type: "job." }) }, "Job events"));
  if (queues.includes(void 0) || past === void 0) return [title, loading()];
  if (queues.includes(null) || past === null) return [title];
  const [running = [], waiting = []] = queues.map((list2) => (list2 ?? []).filter(({ model: model2 }) => wanted === null || model2 === wanted));
  return [
    title,
    filters(modelChoice(app, wanted, (model2) => app.go(to(["jobs"], { model: model2 }), { isSame: true }))),
    queueView(app, "Running", running),
    queueView(app, "Waiting", waiting),
    past.length > 0 ? section("Finished", { id: "ended" }, endedTable(past), moreButton(app, path, isWhole)) : null,
    [running, waiting, past].every((list2) => list2.length === 0) ? h("p", { class: "quiet" }, "No jobs.") : null
  ];
}
function queueView(app, title, queue2) {
  const shown2 = JOBS_READ * shownOf(app, title).pages;
  return queue2.length > 0 && section(title, { id: title.toLowerCase() }, h("ul", { class: "rows" }, queue2.slice(0, shown2).map((job2) => queueRow(app, job2))), moreButton(app, title, queue2.length <= shown2));
}
function endedTable(ended2) {
  const columns = ["Job", "Model", "Result", "Reason", "Duration", "Finished"];
  return table("Finished jobs", columns, ended2.map(endedRow), "ended");
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

// src/views/samples/spans.ts
var COLOURS2 = 5;
var TYPE_KEYS = "123456789";
var TEXT_ID = "spans-text";
function spansOf(model2, value) {
  return model2.target.span_types !== null && Array.isArray(value) ? value : null;
}
function marked({ target }, text3, spans, remove2) {
  const characters = Array.from(text3);
  const part = (start, end) => characters.slice(start, end).join("");
  let done = 0;
  const children = [];
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    if (span.start >= characters.length) break;
    children.push(part(done, span.start), mark(target.span_types ?? [], part(span.start, span.end), span, remove2));
    done = span.end;
  }
  return [...children, part(done)];
}
function mark(types, text3, span, remove2) {
  const { label: type, score, start, end } = span;
  const attributes = {
    class: `span colour-${types.indexOf(type) % COLOURS2}`,
    "data-type": type,
    "data-key": `${start}-${end}-${type}`,
    title: score === void 0 ? type : `${type}, ${percent(score)}`
  };
  if (remove2 === void 0) return h("mark", attributes, text3);
  return h("mark", { ...attributes, role: "button", tabindex: 0, "aria-label": `${text3}, ${type}: take away`, onclick: () => remove2(span), onkeydown: (event) => event.key === "Enter" && remove2(span) }, text3);
}
function labellingView(app, model2, listed) {
  const types = model2.target.span_types;
  const { active, unsaved } = workOf(app, model2.name);
  const known = listed?.items.find(({ id }) => id === active);
  if (types === null || known === void 0) return null;
  const text3 = texts(app, model2.name, known.id)?.[0];
  if (text3 === void 0) return null;
  const spans = spansOf(model2, (unsaved.get(known.id) ?? known).label);
  const give = (value) => void label(app, model2, [known.id], value);
  const add = (type) => {
    const selected = selectedCharacters();
    if (selected === null || type === void 0) return;
    const others = (spans ?? []).filter(({ start, end }) => end <= selected.start || start >= selected.end);
    document.getSelection()?.removeAllRanges();
    give([...others, { ...selected, label: type }].map(({ start, end, label: name }) => ({ start, end, label: name })));
  };
  const isBusy = app.state.pending.has(`label:${model2.name}`) || app.state.connection === "lost";
  const keepSelection = (event) => event.preventDefault();
  return h(
    "div",
    {
      class: "labelling",
      "data-key": `labelling-${known.id}`,
      role: "group",
      "aria-label": `Spans of sample ${known.id}`,
      onkeydown: (event) => add(types[TYPE_KEYS.indexOf(event.key)])
    },
    h("p", { id: TEXT_ID, class: "spans", dir: "auto", tabindex: 0, "aria-label": `Text of sample ${known.id}` }, marked(model2, text3, spans ?? [], (gone) => give((spans ?? []).filter((each2) => each2 !== gone)))),
    h(
      "div",
      { class: "toolbar" },
      h("span", { class: "quiet" }, "Select a part of the text, then its type; press a span to take it away."),
      types.map(
        (type, at) => h(
          "button",
          { type: "button", "data-key": `type-${at}`, class: `colour-${at % COLOURS2}`, disabled: isBusy, onpointerdown: keepSelection, onclick: () => add(type) },
          at < TYPE_KEYS.length ? h("kbd", {}, TYPE_KEYS[at] ?? "") : null,
          ` ${type}`
        )
      ),
      h("button", { type: "button", "data-key": "none", disabled: isBusy || spans?.length === 0, onclick: () => give([]) }, "No spans")
    )
  );
}
function selectedCharacters() {
  const shown2 = document.getElementById(TEXT_ID);
  const selection = document.getSelection();
  if (shown2 === null || selection === null || selection.rangeCount === 0) return null;
  const range = selection.getRangeAt(0);
  if (!shown2.contains(range.startContainer) || !shown2.contains(range.endContainer)) return null;
  const before = document.createRange();
  before.setStart(shown2, 0);
  before.setEnd(range.startContainer, range.startOffset);
  const text3 = range.toString();
  const start = Array.from(before.toString()).length + Array.from(text3).length - Array.from(text3.trimStart()).length;
  const end = start + Array.from(text3.trim()).length;
  return start < end ? { start, end } : null;
}

// src/views/samples/content.ts
var VALUES_SHOWN = 6;
var CHARACTERS_SHOWN = 300;
var SERIES_FROM = 12;
var LINE_DOTS = 96;
var PIXELS_TO = 64;
var painted = /* @__PURE__ */ new WeakMap();
function sampleView(app, model2, sample2) {
  if (fileKind(model2) === "image") return pictureView(app, model2, sample2);
  if (fileKind(model2) === "audio") return soundView(app, model2, sample2.id);
  if (fileKind(model2) === "text") return textView(app, model2, sample2);
  return showsPictures(model2) ? tensorPicture(app, model2, sample2.id) : valuesView(app, model2, sample2.id);
}
function canvasOf(shown2, id = null) {
  const draw = (canvas) => {
    if (!shown2 || painted.get(canvas) === shown2) return;
    painted.set(canvas, shown2);
    const context = canvas.getContext("2d");
    if (shown2 instanceof ImageData) context?.putImageData(shown2, 0, 0);
    else context?.drawImage(shown2, 0, 0);
  };
  return h("canvas", { id, class: `picture ${shown2 && shown2.height <= PIXELS_TO ? "pixels" : ""}`, "aria-hidden": "true", width: shown2?.width ?? 1, height: shown2?.height ?? 1, onpaint: draw });
}
function tensorPicture(app, model2, id) {
  const [input] = model2.inputs;
  const tensor = content(app, model2.name, id)?.get(input?.name ?? "");
  return canvasOf(tensor && input ? pixelsOf(tensor, input.shape) : null);
}
function pictureView(app, model2, sample2) {
  const { id, label: label2 } = sample2;
  const boxes = boxesOf(label2);
  const shown2 = picture(app, model2.name, sample2, boxes !== null);
  if (shown2 === null) return h("span", { class: "picture quiet" }, "cannot be decoded");
  if (shown2 && boxes !== null) return boxedView(model2, shown2, boxes);
  const over2 = shown2 && isMask(label2) ? mask(app, model2.name, id, label2) : void 0;
  return canvasOf(shown2 && over2 ? overlaid(shown2, over2.painted) : shown2 ?? null);
}
function boxedView(model2, shown2, boxes, { isNamed = false, kinds = /* @__PURE__ */ new Map() } = {}) {
  const { width, height } = ownSize(shown2);
  const marks = boxes.map((each2) => boxMark(model2, each2, isNamed ? height : null, { class: kinds.get(each2) ?? "" }));
  return h("span", { class: "boxed" }, canvasOf(shown2), s("svg", { class: "picture", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, marks));
}
function boxMark(model2, { box: [x, y, width, height], label: label2, probability }, named, attributes = {}) {
  const stroke = paintText(boxClasses(model2).indexOf(label2) + 1);
  const text3 = `${label2}${typeof probability === "number" ? ` ${percent(probability)}` : ""}`;
  return s(
    "g",
    { ...attributes, class: `box ${attributes.class ?? ""}` },
    s("rect", { x, y, width, height, stroke }),
    named !== null && s("text", { x, y: y - named / 80, "font-size": named / 20 }, text3)
  );
}
function soundView(app, model2, id) {
  const known = sound(app, model2.name, id);
  if (!known) return h("span", { class: "quiet" }, known === null ? "cannot be decoded" : "");
  const values = known.getChannelData(0);
  const length = Math.max(1, Math.floor(values.length / LINE_DOTS));
  const loudest = Array.from(
    { length: Math.ceil(values.length / length) },
    (_, at) => values.subarray(at * length, (at + 1) * length).reduce((most, value) => Math.max(most, Math.abs(value)), 0)
  );
  const seconds = `${decimal(known.duration)} s`;
  return h("span", { class: "sound" }, sparkline(loudest, `Loudness over ${seconds}`), h("span", { class: "quiet number" }, seconds));
}
function textView(app, model2, { id, label: label2 }) {
  const known = texts(app, model2.name, id) ?? [];
  const shown2 = known.map((each2) => each2.length > CHARACTERS_SHOWN ? `${each2.slice(0, CHARACTERS_SHOWN)} …` : each2);
  return h("span", { class: "words", title: shown2.join("\n") }, shown2.map((each2) => h("span", { dir: "auto" }, marked(model2, each2, spansOf(model2, label2) ?? []))));
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
    known.map(({ name, tensor }) => tensorView(name, tensor))
  );
}
function tensorView(name, tensor) {
  const shape = tensor.shape.slice(1);
  if (rasterOf(shape) !== null) return canvasOf(pixelsOf(tensor, shape));
  return tensor.values.length >= SERIES_FROM ? series(name, tensor) : text2(tensor);
}
function text2({ values }) {
  const shown2 = values.slice(0, VALUES_SHOWN).map((each2) => decimal(each2)).join("  ");
  return `${shown2}${values.length > VALUES_SHOWN ? " …" : ""}`;
}
function series(name, { shape, values }) {
  const inner = shape.length > 2 ? shape.at(-1) ?? 1 : 1;
  const one = values.filter((_, index) => index % inner === 0);
  const at = linear({ low: 0, high: LINE_DOTS - 1 }, { low: 0, high: one.length - 1 });
  const shown2 = one.length > LINE_DOTS ? Array.from({ length: LINE_DOTS }, (_, index) => one[Math.round(at(index))] ?? 0) : one;
  return sparkline(shown2, `${name}: ${one.length} values`);
}

// src/views/models/answer.ts
var BARS_SHOWN = 20;
var NUMBERS_SHOWN2 = 50;
var LINE_FROM = 12;
function answerView(app, { classes, predictions: [prediction2] }, choice2) {
  const { label: label2, probabilities } = prediction2 ?? {};
  const nameOf3 = (index) => classes?.[index] ?? String(index);
  if (Array.isArray(label2)) {
    const shares = sharesOf(tensorOf(label2).values).map(([index, share]) => ({ name: nameOf3(index), index, share }));
    return barsView(app, "Share", shares, null);
  }
  if (!isList(probabilities)) return null;
  const bars = probabilities.map((share, index) => ({ name: nameOf3(index), index, share: share ?? 0 }));
  return barsView(app, "Probability", bars.sort((a, b) => b.share - a.share), choice2);
}
function subjectOf(app, model2, known) {
  if (fileKind(model2) === "text") return { text: texts(app, model2.name, known.id)?.[0] };
  return takesBoxes(model2) ? { photo: picture(app, model2.name, known, true) } : {};
}
function predictedView(model2, { predictions: [prediction2] }, { text: text3, photo: photo2 }) {
  const { target } = model2;
  const { label: label2, probabilities, values, embedding, spans, boxes, score } = prediction2 ?? {};
  if (typeof score === "number") return scoreView(score, prediction2?.threshold ?? null);
  if (boxes) {
    const shown2 = boxes.filter(isLikely);
    const [few, rest] = [plural(shown2.length, "box", "boxes"), boxes.length - shown2.length];
    const caption = `${few} predicted${rest > 0 ? `, and ${count(rest)} of less than ${percent(LEAST_SHOWN)}` : ""}`;
    return h("figure", { class: "tried", "data-key": "predicted" }, h("figcaption", { class: "quiet" }, caption), photo2 ? boxedView(model2, photo2, shown2, { isNamed: true }) : null);
  }
  if (spans) {
    const shown2 = [h("figcaption", { class: "quiet" }, spans.length > 0 ? "predicted" : "no spans predicted"), h("p", { class: "spans", dir: "auto" }, marked(model2, text3 ?? "", spans))];
    return h("figure", { class: "tried", "data-key": "predicted" }, shown2);
  }
  if (Array.isArray(label2)) return arrayView("predicted", label2, target.num_classes);
  if (Array.isArray(embedding)) return arrayView("embedding", embedding, null);
  const named = numbersOf(values);
  if (named !== null) return h("dl", { class: "facts", "data-key": "predicted" }, named.map(([name, each2]) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", { class: "number" }, each2 === null ? "–" : decimal(each2)))));
  return isList(probabilities) ? null : arrayView("predicted", [values ?? probabilities].flat(), null);
}
function scoreView(score, threshold) {
  return h(
    "figure",
    { class: "tried", "data-key": "predicted" },
    h("figcaption", { class: "quiet" }, threshold === null ? "no threshold before a job has made a version" : score > threshold ? badge("held", "anomaly") : badge("latest", "normal")),
    h("p", { class: "number" }, `score ${decimal(score)}`, threshold !== null && `, threshold ${decimal(threshold)}`),
    threshold !== null && h("meter", { min: 0, max: 2 * threshold, high: threshold, optimum: 0, value: Math.min(score, 2 * threshold), "aria-label": "Score, up to twice the threshold" })
  );
}
function takeParts(app, model2, { predictions: [prediction2] }, { name, isTaken }, take2) {
  const { spans, boxes } = prediction2 ?? {};
  const [label2, what] = boxes ? [{ boxes: boxes.filter(isLikely).map(({ box, label: of }) => ({ box, label: of })) }, "boxes"] : [spans?.map(({ start, end, label: of }) => ({ start, end, label: of })), "spans"];
  return label2 === void 0 ? null : press(app, { name, label: `These ${what} are right`, stale: staleOf(model2), disabled: isTaken, run: () => take2(label2, what) });
}
function isList(value) {
  return Array.isArray(value) && !Array.isArray(value[0]);
}
function tensorOf(nested) {
  const shape = [];
  for (let each2 = nested; Array.isArray(each2); each2 = each2[0]) shape.push(each2.length);
  return { shape, values: nested.flat(Infinity).map((value) => value ?? NaN) };
}
function arrayView(name, nested, classes) {
  const { shape, values } = tensorOf(nested);
  const isMask2 = classes !== null && shape.length === 2;
  const picture2 = isMask2 ? [3, ...shape] : shape;
  const shown2 = { shape: [1, ...picture2], values: isMask2 ? [0, 1, 2].flatMap((part) => values.map((value) => (classColour(value)[part] ?? 0) / 255)) : values };
  const isPicture = rasterOf(picture2) !== null;
  return h(
    "figure",
    { class: "tried", "data-key": name },
    h("figcaption", { class: "quiet" }, name),
    (isPicture || values.length >= LINE_FROM) && tensorView(name, shown2),
    !isPicture && h("p", { class: "number" }, values.slice(0, NUMBERS_SHOWN2).map((each2) => decimal(each2)).join("  "), values.length > NUMBERS_SHOWN2 && " …")
  );
}
function barsView(app, meaning, bars, choice2) {
  const rows = (some) => h("ul", { class: "bars" }, some.map((bar2) => barRow(app, meaning, bar2, choice2)));
  const rest = bars.slice(BARS_SHOWN);
  return [
    rows(bars.slice(0, BARS_SHOWN)),
    rest.length > 0 && h("details", { "data-key": "rest" }, h("summary", {}, `${plural(rest.length, "more class", "more classes")} of ${count(bars.length)}`), rows(rest))
  ];
}
function barRow(app, meaning, { name, index, share }, choice2) {
  return h(
    "li",
    { "data-key": name },
    choice2 === null ? h("span", {}, name) : press(app, {
      name: `${choice2.name}:${index}`,
      label: name,
      about: "is right",
      stale: choice2.stale,
      disabled: choice2.chosen === index,
      run: () => choice2.choose(index, name)
    }),
    h("span", { class: "number" }, percent(share)),
    h("meter", { min: 0, max: 1, value: share, "aria-label": `${meaning} of ${name}` })
  );
}

// src/views/models/changed.ts
var SHOWN_FIRST = 8;
var TITLES = {
  class: { worse: "Right before, wrong now", better: "Wrong before, right now" },
  share: { worse: "Wrong in more places", better: "Wrong in fewer places" },
  absolute: { worse: "Larger error", better: "Smaller error" },
  loss: { worse: "Larger loss", better: "Smaller loss" }
};
function changedView(app, model2, known, side) {
  const { total: total2, items } = known[side];
  const draft = app.draft(`changed:${model2.name}:${known.versions.join(":")}:${side}`, () => ({ shown: SHOWN_FIRST }));
  const shown2 = items.slice(0, draft.shown);
  const more = () => {
    draft.shown += 4 * SHOWN_FIRST;
    app.draw();
  };
  const title = `${TITLES[known.by][side]} (${count(total2)})`;
  return section(
    title,
    { id: side },
    items.length === 0 ? h("p", { class: "quiet" }, "None.") : h("ul", { class: showsPictures(model2) ? "changed pictures" : "changed", "aria-label": title }, shown2.map((each2) => changedItem(app, model2, known, each2))),
    shown2.length < items.length ? h("div", { class: "buttons" }, opener(`more-${side}`, "Show more", more)) : null,
    shown2.length === items.length && total2 > items.length && h("p", { class: "quiet" }, `and ${count(total2 - items.length)} more; the API lists up to 500`)
  );
}
function changedItem(app, model2, known, sample2) {
  const plain2 = sampleView(app, model2, { id: sample2.id, size_bytes: 1 });
  const { seen, found: found2 } = foundOn(app, model2, known, sample2.id);
  return h(
    "li",
    { "data-key": `changed-${sample2.id}` },
    takesBoxes(model2) && seen !== null ? seen : [plain2, seen],
    h("span", { class: "says" }, h("span", { class: "quiet number" }, `sample ${sample2.id}`), says(model2, known, sample2), found2)
  );
}
function foundOn(app, model2, { versions: [first = 1, second = 1] }, id) {
  const nothing = { seen: null, found: null };
  if (!takesBoxes(model2) && !takesMasks(model2)) return nothing;
  const [then, now] = [first, second].map((version) => prediction(app, model2, id, version)?.predictions[0]);
  if (!then || !now) return nothing;
  if (takesMasks(model2)) return { seen: [maskView(model2, first, then.label), maskView(model2, second, now.label)], found: null };
  const [before, after] = [then, now].map(({ boxes }) => (boxes ?? []).filter(isLikely));
  const [more, less] = [without(after, before), without(before, after)];
  const kinds = new Map([...after.map((each2) => [each2, more.includes(each2) ? "chosen" : "thin"]), ...less.map((each2) => [each2, "lost"])]);
  const shown2 = picture(app, model2.name, { id, size_bytes: 1 }, true);
  return {
    seen: shown2 ? boxedView(model2, shown2, [...after, ...less], { kinds }) : null,
    found: h("span", { "data-key": "found" }, `finds ${count(more.length)} more (thick), ${count(less.length)} less (dashed)`)
  };
}
function maskView(model2, version, label2) {
  return Array.isArray(label2) ? arrayView(`version ${version}`, label2, model2.target.num_classes) : null;
}
function says(model2, { by, classes, versions: [first, second] }, sample2) {
  const answer = (value) => typeof value === "number" ? classes?.[value] ?? String(value) : value === null ? "–" : labelText(model2, value);
  const shown2 = by === "share" ? percent : decimal;
  const error = (value) => value === null ? "–" : shown2(value);
  const row2 = (name, value) => h("span", { "data-key": name }, h("span", { class: "quiet" }, `${name} `), h("strong", {}, value));
  if (by === "share" || by === "loss") return [row2(`version ${first}`, error(sample2.before_error)), row2(`version ${second}`, error(sample2.after_error))];
  return [
    row2("label", answer(sample2.label)),
    row2(`version ${first}`, `${answer(sample2.before)}${by === "class" ? "" : ` (off by ${error(sample2.before_error)})`}`),
    row2(`version ${second}`, `${answer(sample2.after)}${by === "class" ? "" : ` (off by ${error(sample2.after_error)})`}`)
  ];
}

// src/views/models/confusion.ts
var MOST_CELLS = 20;
var PAIRS_SHOWN = 20;
var STEPS = 5;
function matrixView(title, id, matrix, classes, other) {
  const names = matrix.map((_, index) => classes?.[index] ?? String(index));
  return section(title, { id }, matrix.length <= MOST_CELLS ? table3(title, matrix, names, other) : pairs2(title, matrix, names));
}
function table3(title, matrix, names, other) {
  return scrolled(
    `Confusion matrix of ${title}`,
    h(
      "table",
      { class: "confusion" },
      h("caption", { class: "quiet" }, "Rows: the label. Columns: the prediction."),
      h(
        "thead",
        {},
        h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col" }, h("span", { title: name }, name))))
      ),
      h(
        "tbody",
        {},
        matrix.map((row2, truth) => {
          const total2 = Math.max(1, row2.reduce((sum, value) => sum + value, 0));
          return h(
            "tr",
            {},
            h("th", { scope: "row" }, h("span", { title: names[truth] ?? "" }, names[truth] ?? "")),
            row2.map((value, guess) => cell(value, value / total2, truth === guess, value - (other[truth]?.[guess] ?? 0), `${names[truth]} as ${names[guess]}`))
          );
        })
      )
    )
  );
}
function cell(value, share, isRight, change3, what) {
  const step2 = value === 0 ? 0 : Math.max(1, Math.ceil(share * STEPS));
  const told5 = change3 === 0 ? "" : `, ${change3 > 0 ? "+" : "−"}${Math.abs(change3)} against the other version`;
  return h("td", { class: `${isRight ? "right" : "wrong"} step-${step2} ${change3 === 0 ? "" : "moved"}`, title: `${what}: ${value}${told5}` }, value === 0 ? "" : count(value));
}
function pairs2(title, matrix, names) {
  const found2 = matrix.flatMap((row2, truth) => row2.map((value, guess) => ({ value, truth, guess }))).filter(({ value, truth, guess }) => value > 0 && truth !== guess);
  found2.sort((a, b) => b.value - a.value);
  return h(
    "div",
    {},
    h("p", { class: "quiet" }, found2.length === 0 ? "No confusions." : "Most frequent confusions:"),
    h("ul", { class: "rows", "aria-label": `What ${title} confuses` }, found2.slice(0, PAIRS_SHOWN).map(({ value, truth, guess }) => h("li", {}, `${names[truth]} as ${names[guess]} `, h("span", { class: "number" }, count(value)))))
  );
}

// src/views/models/compare.ts
var OTHER_FIGURES = ["macro_f1", "top_5_accuracy", "calibration_error", "r2"];
var OTHER_SHARES = /* @__PURE__ */ new Set(["top_5_accuracy", "calibration_error"]);
function compareTab(app, model2) {
  const list2 = versions(app, model2.name);
  if (!list2) return loading(list2);
  if (list2.length < 2) return h("p", { class: "quiet", "data-key": "one" }, "This model has only one version. Train it to compare the next one with it.");
  const { query } = app.route;
  const [newest, second] = list2.map(({ version }) => version);
  const after = numberOf(query.get("b")) ?? newest ?? 1;
  const before = numberOf(query.get("a")) ?? earlier(model2, list2, after) ?? second ?? after;
  return h(
    "div",
    { class: "stack", "data-key": "compare" },
    chooser(app, model2, list2, before, after),
    before === after ? h("p", { class: "quiet", "data-key": "same" }, "Choose two different versions.") : found(app, model2, before, after)
  );
}
function numberOf(text3) {
  return text3 !== null && /^[1-9]\d*$/.test(text3) ? Number(text3) : null;
}
function earlier({ latest_version: latest2 }, list2, after) {
  return latest2 !== after && list2.some(({ version }) => version === latest2) ? latest2 : null;
}
function chooser(app, { name }, list2, before, after) {
  const go = (chosen3) => {
    const { query } = app.route;
    const now = { a: numberOf(query.get("a")) ?? before, b: numberOf(query.get("b")) ?? after };
    app.go(to(["models", name, "compare"], { ...now, ...chosen3 }), { isSame: true });
  };
  const options = list2.map(({ version, aliases }) => [String(version), [`version ${version}`, ...aliases].join(", ")]);
  return h(
    "div",
    { class: "toolbar", "data-key": `choose-${before}-${after}`, role: "group", "aria-label": "Versions" },
    choice("Before", String(before), options, (a) => go({ a: Number(a) }), "Before"),
    choice("After", String(after), options, (b) => go({ b: Number(b) }), "After"),
    h("button", { type: "button", onclick: () => go({ a: after, b: before }) }, "Swap")
  );
}
function found(app, model2, before, after) {
  const known = comparison(app, model2.name, before, after);
  if (known === void 0) return h("p", { class: "quiet", role: "status", "data-key": "running" }, "Running both versions on the validation samples. This may take a minute.");
  if (known === null) return h("p", { class: "quiet", "data-key": "missing" }, "These versions cannot be compared.");
  if (known.samples === 0) return h("p", { class: "quiet", "data-key": "empty" }, "There are no labelled validation samples to compare them on.");
  return [
    summary3(known),
    section("Metrics", { id: "metrics" }, metricsTable(model2, known)),
    confusions(known),
    h("div", { class: "columns", "data-key": "changed" }, changedView(app, model2, known, "worse"), changedView(app, model2, known, "better")),
    classesView2(known)
  ];
}
function summary3({ samples, left_out: left, better, worse, by }) {
  const said2 = (total2, side, change3) => by === "class" ? plural(total2, `is now ${side}`, `are now ${side}`) : `${count(total2)} ${change3}`;
  const rest = left > 0 ? ` Left out: ${plural(left, "sample")} of classes that only one version knows.` : "";
  return h(
    "p",
    { class: "sides", "data-key": "summary", role: "status" },
    `Of the current ${plural(samples, "validation sample")}, `,
    h("strong", { class: "good" }, said2(better.total, "right", "improved")),
    ", ",
    h("strong", { class: "bad" }, said2(worse.total, "wrong", "got worse")),
    `.${rest}`
  );
}
function metricsTable(model2, { before, after, versions: pair }) {
  const rows = [.../* @__PURE__ */ new Set([...judgedBy(model2), ...OTHER_FIGURES])].filter((key) => typeof (before[key] ?? after[key]) === "number").map((key) => [metricWords(key), before[key], after[key], isShare(key) || OTHER_SHARES.has(key)]);
  return figures("Table of metrics", pair, [...rows, ...quantiles(before, after)]);
}
function quantiles(before, after) {
  const [then, now] = [before, after].map(({ error_quantiles: each2 }) => each2 ?? {});
  return Object.keys(then ?? {}).map((share) => [`${(Number(share) * 100).toFixed(0)} % of errors are at most`, then?.[share], now?.[share], false]);
}
function figures(title, [first, second], rows) {
  return table(
    title,
    [unseen("Figure"), `Version ${first}`, `Version ${second}`, "Change"],
    rows.map(([name, then, now, isShare2]) => h("tr", { "data-key": name }, h("th", { scope: "row" }, name), figure(then, isShare2), figure(now, isShare2), difference(then, now, isShare2)))
  );
}
function figure(value, isShare2) {
  return h("td", { class: "number" }, typeof value === "number" ? isShare2 ? percent(value) : decimal(value) : "–");
}
function difference(then, now, isShare2) {
  if (typeof then !== "number" || typeof now !== "number") return h("td", {});
  const change3 = now - then;
  const size = isShare2 ? `${(Math.abs(change3) * 100).toFixed(1)} points` : decimal(Math.abs(change3));
  return h("td", { class: "number" }, change3 === 0 ? "same" : `${change3 > 0 ? "+" : "−"}${size}`);
}
function confusions(known) {
  const matrices = [known.before, known.after].map(({ confusion_matrix: each2 }) => each2);
  const [then, now] = matrices;
  if (!then || !now) return null;
  return h(
    "div",
    { class: "columns", "data-key": "matrices" },
    matrixView(`Version ${known.versions[0]}`, "matrix-before", then, known.classes, now),
    matrixView(`Version ${known.versions[1]}`, "matrix-after", now, known.classes, then)
  );
}
function classesView2(known) {
  const rows = Object.entries(known.before).flatMap(([key, then]) => {
    if (!Array.isArray(then) || key === "confusion_matrix") return [];
    const [metric, now] = [key.replace("_by_label", ""), known.after[key]];
    const isOfOne = metric === key || isShare(metric);
    return then.map((value, index) => [`${metricWords(metric)} of ${known.classes?.[index] ?? index}`, value, now?.[index], isOfOne]);
  });
  return rows.length === 0 ? null : section("By class", { id: "each-class" }, figures("Table by class", known.versions, rows));
}

// src/app/uploads.ts
var FORM_FILES = 20;
var MASKS = /(^|\/)masks\//;
var ARCHIVE = "application/zip";
var LISTS = { csv: "text/csv", json: "application/json", jsonl: "application/jsonl" };
var ENDINGS = {
  image: { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", webp: "image/webp" },
  audio: { wav: "audio/wav", flac: "audio/flac" },
  text: { txt: "text/plain", ...LISTS },
  tensors: { npz: "application/x-npz", ...LISTS }
};
var TYPES = Object.assign({ zip: ARCHIVE }, ...Object.values(ENDINGS));
var WHOLE = [ARCHIVE, ...Object.values(LISTS)];
var TAKES = {
  image: "PNG, JPEG and WebP images",
  audio: "WAV and FLAC recordings",
  text: ".txt, .csv, .json and .jsonl files",
  tensors: ".npz, .csv, .json and .jsonl files"
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
  const found2 = items.map(async ({ entry, file }) => {
    if (entry !== null) return await filesOf(entry);
    return file === null ? [] : [{ file, path: "" }];
  });
  return (await Promise.all(found2)).flat();
}
function chosen(files) {
  return [...files].map((file) => ({ file, path: file.webkitRelativePath }));
}
async function filesOf(entry) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    return [{ file, path: entry.fullPath }];
  }
  const reader = entry.createReader();
  const found2 = [];
  for (; ; ) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found2;
    found2.push(...(await Promise.all(some.map(filesOf))).flat());
  }
}
async function send(app, model2, files) {
  const upload = uploadOf(app, model2.name);
  if (upload.stop !== null || files.length === 0) return;
  const stop = new AbortController();
  const types = [ARCHIVE, ...Object.values(ENDINGS[fileKind(model2) ?? "tensors"] ?? {})];
  const fits = files.filter(({ file }) => types.includes(typeOf(file)));
  const [alone, paired] = takesMasks(model2) ? withMasks(fits) : [0, fits];
  const faults2 = files.length === fits.length ? [] : [unfit(model2, files.length - fits.length)];
  if (alone > 0) faults2.push(`${plural(alone, "mask")} skipped: a mask below a folder masks has the place and name of a photo below images`);
  Object.assign(upload, { total: paired.length, sent: 0, accepted: 0, duplicates: 0, faults: faults2, stop });
  app.draw();
  try {
    for (const some of requests(model2, paired)) {
      if (!stop.signal.aborted) await sendSome(app, model2, upload, some);
    }
    app.toast(told2(upload));
  } finally {
    upload.stop = null;
    await app.resources.refresh(staleOf(model2));
    app.draw();
  }
}
function withMasks(files) {
  const stem = (path) => path.replace(/\.\w+$/, "");
  const masks = new Map(files.filter(({ path }) => MASKS.test(path)).map(({ file, path }) => [stem(path.replace(MASKS, "$1images/")), file]));
  const photos = files.filter(({ path }) => !MASKS.test(path)).map((each2) => ({ ...each2, mask: masks.get(stem(each2.path)) }));
  return [masks.size - photos.filter(({ mask: mask2 }) => mask2).length, photos];
}
function requests(model2, files) {
  const others = files.filter(({ file }) => !isAlone(model2, file));
  const forms = Array.from({ length: Math.ceil(others.length / FORM_FILES) }, (_, at) => others.slice(at * FORM_FILES, (at + 1) * FORM_FILES));
  return [...files.filter(({ file }) => isAlone(model2, file)).map((each2) => [each2]), ...forms];
}
async function sendSome(app, model2, upload, files) {
  try {
    const answer = await accepted(app, model2, upload, files);
    upload.accepted += answer.accepted;
    upload.duplicates += answer.duplicates;
    upload.faults.push(...answer.errors.map((fault) => faultText2(files, fault)));
  } catch (error) {
    if (upload.stop?.signal.aborted) return;
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    const faults2 = error instanceof Refused ? error.faults.map((fault) => faultText2(files, fault)) : [];
    upload.faults.push(...faults2.length > 0 ? faults2 : [`${files[0]?.file.name ?? ""}: ${error.message}`]);
  }
  upload.sent += files.length;
  app.draw();
}
async function accepted({ api }, model2, upload, files) {
  const [{ file } = { file: new File([], "") }] = files;
  const signal = upload.stop?.signal;
  if (isArchive(file)) return await api.upload(modelPath(model2.name, "/samples/archive"), typed(file), signal);
  const body = isAlone(model2, file) ? typed(file) : formOf2(model2, upload, files);
  return await api.upload(withQuery(modelPath(model2.name, "/samples"), { on_error: "skip" }), body, signal);
}
function formOf2(model2, upload, files) {
  const form = new FormData();
  for (const { file, path, mask: mask2 } of files) {
    form.append("file", typed(file), mask2 ? path : file.name);
    if (mask2) form.append("mask", typed(mask2), path);
  }
  const about = files.map(({ path }) => ({ label: labelOf(model2, upload, path.split("/").at(-2) ?? "") }));
  form.append("samples", JSON.stringify(about));
  return form;
}
function labelOf(model2, { label: label2 }, folder) {
  const wanted = label2 === "folder" ? folder : label2;
  return namesOf(model2).find((name) => name === wanted) ?? null;
}
function typed(file) {
  return new Blob([file], { type: typeOf(file) });
}
function typeOf({ name }) {
  return TYPES[/\.(\w+)$/.exec(name)?.[1]?.toLowerCase() ?? ""] ?? "";
}
function isAlone(model2, file) {
  return fileKind(model2) === null || WHOLE.includes(typeOf(file));
}
function isArchive(file) {
  return typeOf(file) === ARCHIVE;
}
function unfit(model2, count2) {
  return `${plural(count2, "file")} skipped: this model takes ${TAKES[fileKind(model2) ?? "tensors"]}, and sample archives`;
}
function faultText2(files, { pointer, detail: detail2 }) {
  const name = nameAt(files, pointer);
  return detail2.startsWith(`${name}: `) ? detail2 : `${name}: ${detail2}`;
}
function nameAt(files, pointer) {
  const at = /^\/(?:files?|samples)\/(\d+)/.exec(pointer)?.[1];
  return files[Number(at)]?.file.name ?? (files.length === 1 ? `${files[0]?.file.name ?? ""}${pointer}` : pointer);
}
function told2({ accepted: accepted2, duplicates, faults: faults2 }) {
  const same2 = duplicates > 0 ? `, ${plural(duplicates, "duplicate")}` : "";
  return `${plural(accepted2, "sample")} added${same2}${faults2.length > 0 ? `, ${plural(faults2.length, "problem")}` : ""}.`;
}

// src/app/png.ts
var SIGNATURE = [137, 80, 78, 71, 13, 10, 26, 10];
var POLYNOMIAL = 3988292384;
var BITS = 8;
async function grayPng(values, width) {
  const height = values.length / width;
  const rows = new Uint8Array((width + 1) * height);
  for (let y = 0; y < height; y += 1) rows.set(values.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  const packed = new Blob([rows]).stream().pipeThrough(new CompressionStream("deflate"));
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, BITS);
  const content2 = new Uint8Array(await new Response(packed).arrayBuffer());
  const chunks = [chunk("IHDR", new Uint8Array(header.buffer)), chunk("IDAT", content2), chunk("IEND", new Uint8Array())];
  return new Blob([new Uint8Array(SIGNATURE), ...chunks], { type: "image/png" });
}
function chunk(kind, content2) {
  const bytes2 = new Uint8Array(content2.length + 12);
  const view = new DataView(bytes2.buffer);
  view.setUint32(0, content2.length);
  bytes2.set(new TextEncoder().encode(kind), 4);
  bytes2.set(content2, 8);
  view.setUint32(8 + content2.length, checksum(bytes2.subarray(4, 8 + content2.length)));
  return bytes2;
}
function checksum(bytes2) {
  let sum = -1;
  for (const byte of bytes2) {
    sum ^= byte;
    for (let bit = 0; bit < BITS; bit += 1) sum = sum >>> 1 ^ (sum & 1 ? POLYNOMIAL : 0);
  }
  return ~sum >>> 0;
}

// src/views/samples/surface.ts
var REACH = 8;
function surface({ width, height }, layers, marks, drawing3, attributes) {
  const handlers = {
    onpointerdown: (event) => {
      if (event.button !== 0) return;
      const drawn2 = event.currentTarget;
      drawn2.setPointerCapture(event.pointerId);
      drawing3.begin(placeOf(event), REACH / (drawn2.getScreenCTM()?.a ?? 1), event.shiftKey);
    },
    onpointermove: (event) => {
      if (event.currentTarget.hasPointerCapture(event.pointerId)) drawing3.move(placeOf(event));
    },
    onlostpointercapture: () => drawing3.end()
  };
  return h(
    "div",
    { class: "surface", "data-key": "surface" },
    layers,
    s("svg", { class: "marks", viewBox: `0 0 ${width} ${height}`, "data-key": "marks", ...handlers, ...attributes }, marks)
  );
}
function placeOf(event) {
  const shown2 = event.currentTarget.getScreenCTM();
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(shown2?.inverse());
  return { x, y };
}

// src/views/samples/brush.ts
var MASK_ID = "brush-mask";
var CLASS_KEYS = "123456789";
var WIDTHS = [0.01, 0.03, 0.1];
var WIDTH_NAMES = ["Thin", "Medium", "Broad"];
var MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
function brushView(app, model2, listed) {
  const { active } = workOf(app, model2.name);
  const known = listed?.items.find(({ id: id2 }) => id2 === active);
  if (!takesMasks(model2) || known === void 0) return null;
  const { id, label: value } = known;
  const shown2 = photo(app, model2.name, id);
  const stored = isMask(value) ? mask(app, model2.name, id, value) : null;
  const begin2 = () => ({ sample: null, source: null, mask: null, kept: null, unsaved: 0, value: 1, width: 1, at: { x: 0, y: 0 } });
  const brush = app.draft(`brush:${model2.name}`, begin2);
  const isNew = brush.sample !== id;
  if (shown2 && stored !== void 0 && (isNew || stored !== brush.source && brush.unsaved === 0)) {
    const { width, height } = shown2;
    const begun2 = stored === null ? emptyMask(shown2) : copied(stored);
    Object.assign(brush, { sample: id, source: stored, mask: begun2, kept: stored === null ? null : void 0 });
    if (isNew) brush.at = { x: width / 2, y: height / 2 };
  }
  if (!shown2 || brush.sample !== id || brush.mask === null) return null;
  const press3 = (event) => {
    const at = CLASS_KEYS.indexOf(event.key);
    if (at < 0 || at >= (model2.target.num_classes ?? 0)) return;
    brush.value = at;
    app.draw();
  };
  return h("div", { class: "labelling", "data-key": `brush-${id}`, role: "group", "aria-label": `Mask of sample ${id}`, onkeydown: press3 }, paintedOn(app, model2, brush, shown2), tools(app, model2, brush));
}
function paintedOn(app, model2, brush, shown2) {
  const radius = Math.max(0.5, (WIDTHS[brush.width] ?? 0) * shown2.width / 2);
  const paint2 = (to2) => {
    if (brush.mask === null) return;
    const changed2 = paintLine(brush.mask, brush.at, to2, radius, brush.value);
    element(MASK_ID, HTMLCanvasElement).getContext("2d")?.putImageData(brush.mask.painted, 0, 0, ...changed2);
    brush.at = to2;
  };
  const drawing3 = {
    begin: (at) => {
      if (brush.kept === void 0 && brush.mask !== null) brush.kept = written2(brush.mask);
      brush.unsaved += 1;
      brush.at = at;
      paint2(at);
    },
    move: paint2,
    end: () => void save(app, model2, brush)
  };
  const press3 = (event) => {
    const move = MOVES[event.key];
    const { x, y } = brush.at;
    if (move) brush.at = { x: Math.min(shown2.width, Math.max(0, x + move[0] * radius)), y: Math.min(shown2.height, Math.max(0, y + move[1] * radius)) };
    else if (event.key === " ") {
      drawing3.begin(brush.at);
      drawing3.end();
    } else return;
    event.preventDefault();
    app.draw();
  };
  const where = s("circle", { cx: brush.at.x, cy: brush.at.y, r: radius, class: "brush" });
  return surface(shown2, [canvasOf(shown2), canvasOf(brush.mask?.painted ?? null, MASK_ID)], [where], drawing3, {
    tabindex: 0,
    role: "application",
    "aria-label": `Photo of sample ${brush.sample}: arrows move the brush, space paints`,
    onkeydown: press3
  });
}
function tools(app, model2, brush) {
  const count2 = model2.target.num_classes ?? 0;
  const values = [...Array.from({ length: count2 }, (_, index) => index), UNCOUNTED];
  const nameOf3 = (value) => value === UNCOUNTED ? "does not count" : model2.target.classes?.[value] ?? String(value);
  const choose = (change3) => {
    Object.assign(brush, change3);
    app.draw();
  };
  return h(
    "div",
    { class: "toolbar" },
    h("span", { class: "quiet" }, "Paint over the photo with:"),
    values.map((value) => h("button", { type: "button", "data-key": `value-${value}`, "aria-pressed": String(brush.value === value), onclick: () => choose({ value }) }, value < CLASS_KEYS.length ? h("kbd", {}, String(value + 1)) : null, swatch(value), ` ${nameOf3(value)}`)),
    WIDTH_NAMES.map((name, width) => h("button", { type: "button", "data-key": name, "aria-pressed": String(brush.width === width), onclick: () => choose({ width }) }, name))
  );
}
function swatch(value) {
  return s("svg", { class: "swatch", viewBox: "0 0 1 1", "aria-hidden": "true" }, s("rect", { width: 1, height: 1, fill: paintText(value) }));
}
async function save(app, model2, brush) {
  const { sample: sample2, mask: painted2, kept } = brush;
  if (sample2 === null || painted2 === null) return;
  const now = brush.kept = written2(painted2);
  await label(app, model2, [sample2], await now, await kept);
  brush.unsaved -= 1;
  if (app.state.results.has(`label:${model2.name}`)) brush.sample = null;
  app.draw();
}
async function written2({ values, painted: painted2 }) {
  const bytes2 = new Uint8Array(await (await grayPng(values, painted2.width)).arrayBuffer());
  return { png: btoa(Array.from(bytes2, (byte) => String.fromCharCode(byte)).join("")) };
}

// src/views/samples/boxes.ts
var PARTS = 100;
var KEY_SHARE = 0.01;
var WHOLE2 = [1, 1, 1, 1];
var CORNERS = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]];
function boxesView(app, model2, listed) {
  const { active } = workOf(app, model2.name);
  const known = listed?.items.find(({ id }) => id === active);
  if (!takesBoxes(model2) || known === void 0) return null;
  const shown2 = photo(app, model2.name, known.id);
  if (!shown2) return null;
  const draft = app.draft(`boxes:${model2.name}`, () => ({ sample: null, boxes: null, chosen: null, value: 0, grip: null }));
  if (draft.sample !== known.id) Object.assign(draft, { sample: known.id, boxes: null, chosen: null, grip: null });
  const editor = new Editor(app, model2, draft, shown2, known);
  return h(
    "div",
    { class: "labelling", "data-key": `boxes-${known.id}`, role: "group", "aria-label": `Boxes of sample ${known.id}`, onkeydown: (event) => editor.press(event) },
    surface(shown2, [canvasOf(shown2)], [editor.boxes.map((each2, at) => editor.mark(each2, at)), editor.handles()], editor, { tabindex: -1, role: "group", "aria-label": `Photo of sample ${known.id}` }),
    editor.tools()
  );
}
var Editor = class {
  constructor(app, model2, draft, size, known) {
    this.app = app;
    this.model = model2;
    this.draft = draft;
    this.size = size;
    this.known = known;
  }
  app;
  model;
  draft;
  size;
  known;
  /** As they are now: keys are pressed faster than frames are drawn. */
  get boxes() {
    return this.draft.boxes ?? boxesOf(this.known.label) ?? [];
  }
  /** The corner of the chosen box, the smallest box there, or else a new one. */
  begin(at, reach, isShifted) {
    const { draft, boxes } = this;
    const held = draft.chosen === null ? void 0 : boxes[draft.chosen];
    const edges = held && CORNERS.find((each2) => Math.hypot(cornerOf(held.box, each2).x - at.x, cornerOf(held.box, each2).y - at.y) <= reach);
    if (held && edges) {
      draft.grip = { edges, from: at, before: held.box, isNew: false };
      return;
    }
    const areaAt = (place) => (boxes[place]?.box[2] ?? 0) * (boxes[place]?.box[3] ?? 0);
    const there = boxes.flatMap(({ box }, place) => contains(box, at) ? [place] : []).sort((one, other) => areaAt(one) - areaAt(other));
    const [nearest2] = isShifted ? [] : there;
    if (nearest2 === void 0) {
      draft.boxes = [...boxes, { box: [at.x, at.y, 0, 0], label: this.nameOf(draft.value) }];
      draft.chosen = boxes.length;
    } else draft.chosen = nearest2;
    const before = this.boxes[draft.chosen]?.box ?? [at.x, at.y, 0, 0];
    draft.grip = { edges: nearest2 === void 0 ? [0, 0, 1, 1] : WHOLE2, from: at, before, isNew: nearest2 === void 0 };
    this.app.draw();
  }
  move(at) {
    const { draft } = this;
    if (draft.grip === null || draft.chosen === null) return;
    const { edges, from, before } = draft.grip;
    this.change(draft.chosen, { box: this.moved(before, edges, at.x - from.x, at.y - from.y) });
  }
  end() {
    const { draft } = this;
    const { isNew } = draft.grip ?? { isNew: false };
    const [, , width, height] = (draft.chosen === null ? void 0 : draft.boxes?.[draft.chosen]?.box) ?? [0, 0, 0, 0];
    draft.grip = null;
    if (draft.boxes === null) return;
    if (width > 0 && height > 0) void this.save(draft.boxes);
    else {
      draft.boxes = null;
      if (isNew) draft.chosen = null;
      this.app.draw();
    }
  }
  /** Arrows move, with Shift resize; digits give a class, Delete removes. */
  press(event) {
    const { draft, boxes } = this;
    const held = draft.chosen === null ? void 0 : boxes[draft.chosen];
    const move = MOVES[event.key];
    const at = CLASS_KEYS.indexOf(event.key);
    if (at >= 0 && at < boxClasses(this.model).length) this.choose(at);
    else if (held === void 0 || draft.chosen === null) return;
    else if (event.key === "Delete") this.remove();
    else if (move) {
      const step2 = event.ctrlKey ? 1 : KEY_SHARE * this.size.width;
      this.change(draft.chosen, { box: this.moved(held.box, event.shiftKey ? [0, 0, 1, 1] : WHOLE2, move[0] * step2, move[1] * step2) });
      void this.save(this.boxes);
    } else return;
    event.preventDefault();
  }
  mark(box, at) {
    const { draft, app } = this;
    const isChosen = draft.chosen === at;
    const choose = () => {
      draft.chosen = at;
      app.draw();
    };
    return boxMark(this.model, box, this.size.height, {
      class: isChosen ? "chosen" : "",
      "data-key": `box-${at}`,
      tabindex: 0,
      role: "button",
      "aria-pressed": String(isChosen),
      "aria-label": `${box.label} at ${box.box.slice(0, 2).join(", ")}, ${box.box.slice(2).join(" by ")}`,
      onfocus: isChosen ? () => void 0 : choose
    });
  }
  /** The corners of the chosen box. */
  handles() {
    const held = this.draft.chosen === null ? void 0 : this.boxes[this.draft.chosen];
    if (held === void 0) return null;
    return CORNERS.map((edges) => {
      const { x, y } = cornerOf(held.box, edges);
      return s("circle", { class: "handle", cx: x, cy: y, r: Math.max(this.size.width, this.size.height) / 100 });
    });
  }
  tools() {
    const { app, draft, boxes, size, model: model2 } = this;
    const isBusy = app.state.pending.has(`label:${model2.name}`) || app.state.connection === "lost";
    const add = () => {
      const { width, height } = size;
      draft.chosen = boxes.length;
      void this.save([...boxes, { box: [width / 4, height / 4, width / 2, height / 2], label: this.nameOf(draft.value) }]);
    };
    return h(
      "div",
      { class: "toolbar" },
      h("span", { class: "quiet" }, "Drag to draw a box, or to move one or its corners; with Shift, over another."),
      boxClasses(model2).map(
        (name, at) => h(
          "button",
          { type: "button", "data-key": `class-${at}`, "aria-pressed": String(draft.value === at), onclick: () => this.choose(at) },
          at < CLASS_KEYS.length ? h("kbd", {}, CLASS_KEYS[at] ?? "") : null,
          swatch(at + 1),
          ` ${name}`
        )
      ),
      opener("add", "Add a box", add),
      h("button", { type: "button", "data-key": "remove", disabled: isBusy || draft.chosen === null, onclick: () => this.remove() }, "Remove box"),
      h("button", { type: "button", "data-key": "none", disabled: isBusy, onclick: () => void this.save([]) }, "No boxes")
    );
  }
  nameOf(value) {
    return boxClasses(this.model)[value] ?? 0;
  }
  /** The class of new boxes, and of the chosen one. */
  choose(value) {
    const { draft } = this;
    draft.value = value;
    if (draft.chosen !== null && this.boxes[draft.chosen]) {
      this.change(draft.chosen, { label: this.nameOf(value) });
      void this.save(this.boxes);
    } else this.app.draw();
  }
  remove() {
    const { draft } = this;
    const left = this.boxes.filter((_, at) => at !== draft.chosen);
    draft.chosen = null;
    void this.save(left);
  }
  change(place, change3) {
    this.draft.boxes = this.boxes.map((each2, at) => at === place ? { ...each2, ...change3 } : each2);
    this.app.draw();
  }
  /** The sides once these edges have moved, within the photo. */
  moved([x, y, width, height], edges, right, down) {
    const ends = [[x, x + width, right, edges[0], edges[2], this.size.width], [y, y + height, down, edges[1], edges[3], this.size.height]];
    const [across, along] = ends.map(([low, high, by, isLow, isHigh, most]) => {
      const least = isLow && isHigh ? Math.min(most - high, Math.max(-low, by)) : by;
      const both = [low + isLow * least, high + isHigh * least].map((end) => Math.round(Math.min(most, Math.max(0, end)) * PARTS) / PARTS);
      return [Math.min(...both), Math.max(...both)];
    });
    const side = ([low, high]) => Math.round((high - low) * PARTS) / PARTS;
    return [across[0], along[0], side(across), side(along)];
  }
  /** Shows them at once, and what the daemon has made of them then. */
  async save(boxes) {
    const { app, draft, model: model2 } = this;
    if (draft.sample === null) return;
    draft.boxes = boxes;
    await label(app, model2, [draft.sample], { boxes: boxes.map(({ box, label: name }) => ({ box, label: name })) });
    if (draft.boxes === boxes) draft.boxes = null;
    app.draw();
  }
};
function cornerOf([x, y, width, height], [left, top]) {
  return { x: left ? x : x + width, y: top ? y : y + height };
}
function contains([x, y, width, height], at) {
  return at.x >= x && at.x <= x + width && at.y >= y && at.y <= y + height;
}

// src/views/samples/deletion.ts
function chosen2(app, model2) {
  const { selected, active } = workOf(app, model2.name);
  if (selected.size > 0) return [...selected];
  return active === null ? [] : [active];
}
function askDelete(app, model2) {
  const ids = chosen2(app, model2);
  if (ids.length === 0) return;
  const fields2 = ids.length === 1 ? { fields: () => retrainField("it") } : {};
  ask(app, model2, { title: `Delete ${plural(ids.length, "sample")}?`, ...fields2 }, (retrain) => remove(app, model2, ids, retrain));
}
function askDeleteAll(app, model2) {
  const filter = filterOf(app);
  if (filter === null) return;
  const { label: label2, split, text: text3 } = filter;
  const show = showOf(app) === "all" ? null : SHOWN[showOf(app)].title.toLowerCase();
  const conditions = [show, label2 && `label ${label2}`, split && `split ${split}`, text3 && `“${text3}” in the text`].filter(Boolean).join(", ");
  const title = conditions === "" ? `Delete all samples of ${model2.name}?` : `Delete all samples with: ${conditions}?`;
  ask(app, model2, { title, fields: () => retrainField("them") }, (retrain) => removeAll(app, model2, filter, retrain));
}
function ask(app, { name }, about, run) {
  confirm(app, {
    ...about,
    detail: "Their bytes are overwritten. Versions trained on them are kept, with what they learned.",
    no: "Keep",
    yes: "Delete",
    name: `delete:${name}`,
    stale: [...staleOf({ name }), "/v1/jobs"],
    run: (given) => run(given.has("retrain"))
  });
}
function retrainField(them) {
  return h(
    "label",
    { class: "check" },
    h("input", { type: "checkbox", name: "retrain" }),
    `Retrain without ${them}, then delete the versions trained on ${them}`
  );
}

// src/views/samples/grid.ts
var PICTURE = { width: 128, height: 148, gap: 8 };
var VALUES = { width: Infinity, height: 44, gap: 0 };
var MOST_SHOWN = 200;
var ROWS_BEYOND = 2;
var ROWS_AHEAD = 10;
var CLASS_KEYS2 = "1234567890";
function gridView(app, model2, listed) {
  const isImage = showsPictures(model2);
  const isLabelledAbove = takesMasks(model2) || takesBoxes(model2) || model2.target.span_types !== null;
  const { items } = listed;
  const { columns, rows, height, first, last: last2 } = windowOf(items.length, sizeOf(model2));
  if (last2 > rows - ROWS_AHEAD) void loadMore(app, model2, listed);
  const start = first * columns;
  const shown2 = items.slice(start, last2 * columns);
  const size = listed.next === null ? items.length : -1;
  return h(
    "div",
    {
      id: "grid",
      class: `samples ${isLabelledAbove ? "below" : ""}`,
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
      shown2.map((sample2, at) => cell2(app, model2, sample2, { place: start + at + 1, size }))
    ),
    spacer((rows - last2) * height, "below")
  );
}
function sizeOf(model2) {
  return showsPictures(model2) ? PICTURE : VALUES;
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
function cell2(app, model2, sample2, { place, size }) {
  const work = workOf(app, model2.name);
  const { id, label: value, split } = sample2;
  const text3 = `${labelText(model2, value)}${split === "validation" && value !== null ? " ·v" : ""}${work.unsaved.has(id) ? " …" : ""}`;
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
      class: `cell ${work.active === id ? "active" : ""}`,
      role: "option",
      "aria-selected": isSelected ? "true" : "false",
      "aria-label": `Sample ${id}, ${text3}`,
      "aria-posinset": place,
      "aria-setsize": size,
      "data-key": `sample-${id}`,
      title: sample2.quarantine,
      onclick: choose
    },
    sampleView(app, model2, sample2),
    h("span", { class: "caption" }, h("span", { class: "label", title: text3 }, text3), h("span", { class: "quiet number" }, detail(model2, sample2)))
  );
}
function detail(model2, { id, doubt, predicted, uncertainty, quarantine }) {
  if (quarantine) return "quarantined";
  if (typeof doubt === "number") {
    return `${labelText(model2, predicted)}? ${percent(doubt)}`;
  }
  return typeof uncertainty === "number" ? decimal(uncertainty) : `${id}`;
}
function toggle(set, id) {
  if (!set.delete(id)) set.add(id);
}
function press2(app, model2, items, columns, event) {
  const work = workOf(app, model2.name);
  const moves2 = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const move = moves2[event.key];
  const digit = CLASS_KEYS2.indexOf(event.key);
  if (event.altKey || (event.ctrlKey || event.metaKey) && event.key !== "z") return;
  if (move !== void 0) step(app, model2, items, columns, move);
  else if (event.key === " " && work.active !== null) toggle(work.selected, work.active);
  else if (event.key === "u" || event.key === "z") void undo(app, model2);
  else if (event.key === "Delete") askDelete(app, model2);
  else if (event.key === "Escape") work.selected.clear();
  else if (digit >= 0 && digit < classesOf(model2).length && chosen2(app, model2).length > 0) {
    const isOne = work.selected.size === 0;
    void label(app, model2, chosen2(app, model2), digit);
    if (isOne) step(app, model2, items, columns, 1);
  } else return;
  event.preventDefault();
  app.draw();
}
function step(app, model2, items, columns, by) {
  const work = workOf(app, model2.name);
  const now = items.findIndex(({ id }) => id === work.active);
  const next = now < 0 ? 0 : Math.min(items.length - 1, Math.max(0, now + by));
  work.active = items[next]?.id ?? null;
  app.draw();
  requestAnimationFrame(() => reveal(`sample-${work.active}`, Math.floor(next / columns) * sizeOf(model2).height));
}
function reveal(id, top) {
  const cell3 = document.getElementById(id);
  const above = document.getElementById("grid")?.getBoundingClientRect().top ?? 0;
  if (cell3 === null) window.scrollBy(0, above + top - window.innerHeight / 2);
  else cell3.scrollIntoView({ block: "nearest" });
}

// src/views/parts/save.ts
var KEPT_MS = 6e4;
function downloader(app, path, file, { said: said2 = null, ...button }) {
  const run = async () => {
    save2(await app.api.bytes(path), file);
    return said2;
  };
  return press(app, { ...button, run });
}
function save2(file, name) {
  const link = h("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}

// src/views/samples/upload.ts
var FAULTS_SHOWN = 20;
function uploadView(app, model2) {
  const upload = uploadOf(app, model2.name);
  const kind = fileKind(model2);
  const takes = { image: "images, folders", audio: "recordings, folders", text: ".txt, .csv or .jsonl files, folders", tensors: ".npz, .csv or .json files" }[kind ?? "tensors"];
  const isOff = upload.stop !== null || app.state.connection === "lost";
  const hidden = upload.faults.length - FAULTS_SHOWN;
  const field3 = (title, isFolder) => fileButton(title, (_, files) => void send(app, model2, chosen(files)), { multiple: true, webkitdirectory: isFolder, disabled: isOff });
  return h(
    "div",
    { class: "drop", "data-key": "upload", role: "group", "aria-label": "Add samples" },
    h("p", { class: "quiet" }, `Drop ${takes} or sample archives (.zip) anywhere here, or`),
    field3("Choose files", false),
    kind === null ? null : field3("Choose a folder", true),
    kind !== null && namesOf(model2).length > 0 ? labelField(app, model2) : null,
    upload.stop === null ? null : progress(app, model2),
    upload.faults.length === 0 ? null : h("div", { class: "problem", role: "alert" }, h("ul", {}, upload.faults.slice(0, FAULTS_SHOWN).map((fault) => h("li", {}, fault)), hidden > 0 && h("li", {}, `and ${plural(hidden, "more problem")}`)))
  );
}
function labelField(app, model2) {
  const upload = uploadOf(app, model2.name);
  const choose = (event) => {
    upload.label = event.currentTarget.value;
  };
  const options = [["folder", "by folder"], ["none", "none"], ...namesOf(model2).map((name) => [name, name])];
  return h(
    "label",
    { class: "inline" },
    h("span", { class: "quiet" }, "Label"),
    h("select", { onchange: choose }, options.map(([value, text3]) => h("option", { value: value ?? "", selected: value === upload.label }, text3 ?? "")))
  );
}
function progress(app, model2) {
  const { sent, total: total2, stop } = uploadOf(app, model2.name);
  return h(
    "div",
    { class: "sending", role: "status", "data-key": "sending" },
    h("progress", { max: total2, value: sent, "aria-label": "Files sent" }),
    h("span", { class: "quiet number" }, `${count(sent)} of ${plural(total2, "file")} sent`),
    h("button", { type: "button", onclick: () => stop?.abort() }, "Stop")
  );
}

// src/views/samples/samples.ts
var KEYED_CLASSES = 10;
var NAMED = 5;
function samplesTab(app, model2) {
  const listed = list(app, model2);
  return h(
    "div",
    {
      class: "stack",
      "data-key": "samples",
      ...dropping((transfer) => void dropped(transfer).then((files) => send(app, model2, files)))
    },
    filters2(app, model2, (listed?.items.length ?? 0) > 0),
    uploadView(app, model2),
    toolbar(app, model2, listed?.items ?? []),
    labellingView(app, model2, listed),
    brushView(app, model2, listed),
    boxesView(app, model2, listed),
    !listed ? loading(listed) : listed.items.length === 0 ? h("p", { class: "quiet", "data-key": "none" }, none(app)) : gridView(app, model2, listed)
  );
}
function none(app) {
  if (showOf(app) === "suspect") return "The current version finds no doubtful labels.";
  return app.route.query.size === 0 ? "No samples yet. Drop files here to add some." : "No matching samples.";
}
function filters2(app, model2, hasItems) {
  const canFilter = filterOf(app) !== null;
  const classes = classesOf(model2);
  const select = (name, title, options) => choice(title, app.route.query.get(name), options, (value) => filterTo(app, model2.name, { [name]: value || null }), name);
  const shows = Object.entries(SHOWN).filter(([key]) => canShow(model2, key)).map(([key, { title }]) => [key === "all" ? "" : key, title]);
  return h(
    "div",
    { class: "toolbar", "data-key": "filters", role: "group", "aria-label": "Filter" },
    select("show", "Show", shows),
    canFilter && classes.length > 0 ? select("label", "Label", [["", "any"], ...classes.map((name) => [name, name])]) : null,
    canFilter && fileKind(model2) === "text" ? search(app, model2) : null,
    canFilter ? select("split", "Split", [["", "any"], ["train", "train"], ["validation", "validation"], ["base", "base set"]]) : null,
    h("p", { class: "quiet", role: "status" }, counted(app, model2)),
    h(
      "div",
      { class: "buttons", "data-key": "all" },
      downloader(app, modelPath(model2.name, "/samples/archive"), `${model2.name}-samples.zip`, {
        name: `archive:${model2.name}`,
        label: "Download all",
        about: `samples of ${model2.name}`,
        said: `Samples of ${model2.name} downloaded.`
      }),
      canFilter && hasItems && opener("ask-delete-all", "Delete all …", () => askDeleteAll(app, model2), "that the filter shows", "danger")
    )
  );
}
function search(app, model2) {
  return h(
    "label",
    { class: "inline", "data-key": "text" },
    h("span", { class: "quiet" }, "Text"),
    h("input", {
      type: "search",
      dir: "auto",
      maxlength: 256,
      value: app.route.query.get("text") ?? "",
      onchange: (event) => filterTo(app, model2.name, { text: event.currentTarget.value || null })
    })
  );
}
function counted(app, model2) {
  const known = stats(app, model2.name);
  if (!known) return "";
  const aside = known.quarantined > 0 ? `, ${count(known.quarantined)} quarantined` : "";
  return `${plural(known.train + known.validation + known.base, "labelled sample")}, ${count(known.unlabelled)} unlabelled${aside}`;
}
function toolbar(app, model2, items) {
  const work = workOf(app, model2.name);
  const ids = chosen2(app, model2);
  const one = ids.length === 1 ? ids[0] ?? null : null;
  const aside = items.find(({ id }) => id === one)?.quarantine;
  const classes = classesOf(model2);
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
    numberForm(model2, isBusy || ids.length === 0, give),
    opener("unlabel", "No label", () => give(null), "", null, isBusy || ids.length === 0),
    h(
      "button",
      { type: "button", "data-key": "undo", disabled: isBusy || work.undo.length === 0, onclick: () => void undo(app, model2) },
      h("kbd", {}, "U"),
      " Undo"
    ),
    items.length > 0 ? opener("select-all", work.selected.size > 0 ? "Select none" : "Select all", () => selectAll(app, model2, items)) : null,
    one === null ? null : h("a", { class: "button", "data-key": "predict", href: to(["models", model2.name, "try"], { sample: one }), "aria-label": `Predict sample ${one}` }, "Predict"),
    one !== null && fileKind(model2) === "audio" ? opener("play", "Play", () => play(app, model2, one), `sample ${one}`) : null,
    ids.length > 0 ? opener("ask-delete", "Delete …", () => askDelete(app, model2), plural(ids.length, "sample"), "danger") : null,
    aside ? h("p", { class: "problem", "data-key": "aside" }, `Quarantined: ${aside}`) : null,
    outcome(app, `label:${model2.name}`),
    unsavedView(app, model2)
  );
}
function unsavedView(app, model2) {
  const ids = [...workOf(app, model2.name).unsaved.keys()];
  if (ids.length === 0 || app.state.pending.has(`label:${model2.name}`)) return null;
  const named = `${ids.slice(0, NAMED).join(", ")}${ids.length > NAMED ? ", …" : ""}`;
  return h(
    "span",
    { class: "press", role: "alert", "data-key": "unsaved" },
    h("span", { class: "problem" }, `Not stored: the labels of ${plural(ids.length, "sample")} (${named}).`),
    h("button", { type: "button", "data-key": "store", disabled: app.state.connection === "lost", onclick: () => void labelAgain(app, model2) }, "Store")
  );
}
function otherClasses(classes, disabled, give) {
  const choose = (event) => {
    const field3 = event.currentTarget;
    if (field3.value !== "") give(Number(field3.value));
    field3.value = "";
  };
  return h(
    "select",
    { "aria-label": "Another class", disabled, onchange: choose },
    h("option", { value: "" }, "another class"),
    classes.slice(KEYED_CLASSES).map((name, index) => h("option", { value: index + KEYED_CLASSES }, name))
  );
}
function numberForm(model2, disabled, give) {
  const names = numberNamesOf(model2);
  if (names.length === 0) return null;
  const send2 = (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const filled3 = [...new FormData(form)].filter(([, value]) => value !== "");
    if (filled3.length > 0) give(Object.fromEntries(filled3.map(([name, value]) => [name, Number(value)])));
    form.reset();
  };
  return h(
    "form",
    { class: "toolbar", "data-key": "numbers", "aria-label": "Numbers of the label", onsubmit: send2 },
    names.map((name) => h("label", { "data-key": name }, name, " ", h("input", { name, type: "number", step: "any", size: 6 }))),
    h("button", { disabled }, "Set")
  );
}
function selectAll(app, model2, items) {
  const work = workOf(app, model2.name);
  work.selected = work.selected.size > 0 ? /* @__PURE__ */ new Set() : new Set(items.map(({ id }) => id));
  app.draw();
}

// src/views/models/base.ts
var DIGEST_SHOWN = 12;
function baseView(app, model2) {
  const { name } = model2;
  const path = modelPath(name, "/base");
  const base = app.resources.read(modelPath(name, "/base"));
  const act = `upgrade:${name}`;
  const send2 = (file) => void app.act(act, staleOf(model2), () => app.api.put(path, formOf3(file)).then(begun));
  return section(
    "Base",
    { id: "base" },
    h("p", { class: "quiet" }, "The file that versions descend from. A better one, of any architecture, is trained on the device’s samples, and serves once the gate finds it no worse."),
    base ? facts2(base) : loading(base),
    base?.upgrade != null && upgradeView(app, model2, base.upgrade),
    h("div", { class: "buttons", "data-key": "file" }, fileButton("Upgrade to a file", send2, { accept: ".onnx", disabled: app.state.pending.has(act) }), outcome(app, act))
  );
}
function formOf3(file) {
  const form = new FormData();
  form.append("model", file);
  return form;
}
function begun({ id }) {
  return `Job ${id} trains the upgrade when the policy allows.`;
}
function facts2({ base, sha256, adopted_at: adopted, versions: versions2, former }) {
  return h(
    "dl",
    { class: "facts" },
    fact("number", count(base)),
    fact("SHA-256", sha256.slice(0, DIGEST_SHOWN)),
    fact("since", when(adopted)),
    fact("versions", versions2.join(", ")),
    former.map((each2) => fact(`base ${each2.base}`, each2.versions.length > 0 ? plural(each2.versions.length, "version") : "no version"))
  );
}
function upgradeView(app, { name }, { state, reason, retry_at: retry }) {
  const waits = retry === null ? "" : ` It is tried again with ${count(retry)} labelled samples.`;
  return h(
    "div",
    { "data-key": "upgrade" },
    h("p", {}, `An upgrade is ${state}: ${reason}${reason.endsWith(".") ? "" : "."}${waits}`),
    h("div", { class: "buttons" }, remover(app, {
      label: "Drop …",
      about: "the upgrade",
      title: `Drop the upgrade of ${name}?`,
      detail: "Its job is cancelled, and the versions that it made are deleted. Apps notice nothing.",
      yes: "Drop the upgrade",
      name: `drop-upgrade:${name}`,
      remove: () => app.api.remove(modelPath(name, "/base")),
      stale: staleOf({ name }),
      said: "Upgrade dropped."
    }))
  );
}

// src/views/models/classes.ts
var MOST_READ2 = 1e3;
var ROWS_SHOWN = 50;
var UNTIL = "Existing versions keep it, and apps get it until a job has trained. The indices of later classes go down by one.";
function classesView3(app, model2) {
  const { name, loss, target } = model2;
  if (!taskOf(loss)?.hasClasses || target.num_classes === null) return null;
  if (target.classes === null) return section("Classes", { id: "classes" }, namesForm(app, model2));
  const known = app.resources.read(withQuery(modelPath(name, "/classes"), { limit: MOST_READ2 }));
  return section("Classes", { id: "classes" }, known ? classList(app, model2, known) : loading(known), addForm(app, model2));
}
function namesForm(app, model2) {
  const { name, target } = model2;
  return [
    h("p", { class: "quiet" }, `The ${count(target.num_classes ?? 0)} classes have no names. With names, classes can be added and removed.`),
    settingsForm(app, {
      name: `names:${name}`,
      groups: [{ title: "Classes", settings: [{ name: "classes", title: "Names in the order of their indices", unit: "comma-separated", kind: "list" }] }],
      values: { classes: [] },
      stale: staleOf(model2),
      send: (given) => app.api.patch(modelPath(name), given).then(() => `The classes of ${name} are named.`)
    })
  ];
}
function addForm(app, model2) {
  return settingsForm(app, {
    name: `class:${model2.name}`,
    groups: [{ title: "A new class", settings: [{ name: "name", title: "A new class", kind: "text" }] }],
    values: { name: null },
    save: "Add the class",
    stale: staleOf(model2),
    send: (given) => app.api.post(modelPath(model2.name, "/classes"), given, true).then((made) => `Class ${made.name} added. Apps get it once a job has trained.`)
  });
}
function classList(app, model2, { items, next }) {
  const found2 = app.draft(`classes-found:${model2.name}`, () => ({ text: "" }));
  const fits = items.filter(({ name }) => name.toLowerCase().includes(found2.text.toLowerCase()));
  const search2 = (event) => {
    found2.text = event.currentTarget.value;
    app.draw();
  };
  const left = fits.length - ROWS_SHOWN;
  return [
    items.length > ROWS_SHOWN && h("input", { type: "search", "aria-label": "Find a class", placeholder: "Find a class", "data-key": "find", oninput: search2 }),
    h("ul", { class: "rows", "data-key": "list" }, fits.slice(0, ROWS_SHOWN).map((each2) => classItem(app, model2, each2))),
    left > 0 && h("p", { class: "quiet", "data-key": "left" }, `${count(left)} more${next === null ? "" : ` of the first ${count(MOST_READ2)}`}`)
  ];
}
function classItem(app, model2, known) {
  const { name, train, validation, in_latest: isInLatest } = known;
  const button = (verb, ask2) => opener(`${verb}:${name}`, `${verb} …`, () => confirm(app, ask2()), name, "plain");
  return h(
    "li",
    { "data-key": `class-${name}`, "aria-label": `Class ${name}` },
    h(
      "div",
      { class: "row-head" },
      h("h3", {}, name),
      !isInLatest && badge("held", "not in latest"),
      h("p", { class: "quiet number" }, `${count(train)} train, ${count(validation)} validation`),
      h("div", { class: "buttons" }, button("Rename", () => renaming(app, model2, known)), button("Merge", () => merging(app, model2, known)), button("Remove", () => removing(app, model2, known)))
    )
  );
}
function renaming(app, model2, known) {
  return {
    title: `Rename ${known.name}`,
    detail: "Samples show the new name. Versions keep the name they were made with.",
    fields: () => field2("Name", h("input", { name: "name", type: "text", value: known.name, autocomplete: "off" })),
    yes: "Rename",
    kind: "primary",
    ...common(model2, `rename:${known.name}`),
    run: async (given) => {
      const { name } = await app.api.patch(modelPath(model2.name, `/classes/${encodeURIComponent(known.name)}`), { name: String(given.get("name")).trim() });
      return `${known.name} renamed to ${name}.`;
    }
  };
}
function merging(app, model2, known) {
  const others = (model2.target.classes ?? []).filter((name) => name !== known.name);
  return {
    title: `Merge ${known.name} into another class`,
    detail: `Its samples are relabelled with the other class, and the head loses its row. ${UNTIL}`,
    fields: () => field2("Into", h("select", { name: "into" }, others.map((name) => h("option", { value: name }, name)))),
    yes: "Merge the classes",
    ...common(model2, `merge:${known.name}`),
    run: async (given) => {
      const into = await app.api.post(modelPath(model2.name, `/classes/${encodeURIComponent(known.name)}/merge`), { into: given.get("into") }, true);
      return `${known.name} merged into ${into.name}.`;
    }
  };
}
function removing(app, model2, known) {
  return {
    title: `Remove the class ${known.name}?`,
    detail: `The head loses its row. ${UNTIL}`,
    fields: () => h("label", { class: "check" }, h("input", { type: "checkbox", name: "unlabel" }), "Keep its samples, without their label"),
    yes: "Remove the class",
    ...common(model2, `remove:${known.name}`),
    run: async (given) => {
      const query = { unlabel: given.has("unlabel") ? "true" : null };
      await app.api.remove(withQuery(modelPath(model2.name, `/classes/${encodeURIComponent(known.name)}`), query), true);
      return `Class ${known.name} removed.`;
    }
  };
}
function field2(title, control2) {
  return h("div", { class: "fields" }, h("label", {}, h("span", {}, title), control2));
}
function common(model2, name) {
  return { name: `${name}:${model2.name}`, stale: staleOf(model2) };
}

// src/views/models/federation.ts
var number = (name, title, placeholder) => ({ name, title, kind: "number", placeholder });
var SETTINGS = [
  { name: "allowed", title: "Take part in federated training", kind: "flag" },
  { name: "superlink", title: "SuperLink of the federation", kind: "text", placeholder: "its address, or any name" },
  number("epsilon", "Privacy budget (ε)", "none"),
  number("delta", "Delta (δ)", "0.00001"),
  number("min_samples", "Minimum samples per update", "16"),
  number("max_rounds_per_day", "Maximum rounds per day", "no limit"),
  number("clip_norm", "Maximum norm of an update", "as the round requests"),
  number("noise_multiplier", "Minimum noise", "0"),
  { name: "personalize", title: "Fine-tuning of received parameters, as JSON", kind: "json" }
];
function federationView(app, { name }) {
  const known = app.resources.read(modelPath(name, "/federation"));
  return section(
    "Federation",
    { id: "federation" },
    h("p", { class: "quiet" }, "The federation sends parameters; this device trains them on the model’s samples, which never leave it, and returns an update. Without a budget, the federation decides whether updates are noised."),
    known ? spentView(known) : loading(known),
    known != null && settingsForm(app, {
      name: `federation:${name}`,
      groups: [{ title: "Federation", settings: SETTINGS }],
      values: { ...known },
      pointer: "/federation",
      stale: staleOf({ name }),
      send: (changed2) => app.api.patch(modelPath(name), { federation: changed2 }).then(() => `Federation of ${name} saved.`)
    })
  );
}
function spentView({ epsilon, spent, rounds_today: today }) {
  return h(
    "dl",
    { class: "facts" },
    fact(
      "budget spent",
      spent.epsilon === null ? "no bound: an update had no noise" : `ε ${decimal(spent.epsilon)}${epsilon === null ? "" : ` of ${decimal(epsilon)}`}`
    ),
    fact("updates with noise", count(spent.rounds)),
    fact("without noise", count(spent.rounds_without_noise)),
    fact("rounds today", count(today))
  );
}

// src/views/models/follow.ts
var SETTINGS2 = [
  limit("every_hours", "Ask every", "hours"),
  limit("percent", "Share of devices that take what is offered", "%"),
  { name: "report", title: "Send one report on each upgrade to", kind: "text", placeholder: "nobody" }
];
function followView(app, model2) {
  const { name } = model2;
  const path = modelPath(name, "/follow");
  const source = app.resources.read(modelPath(name, "/base"))?.source;
  const known = typeof source === "string" ? app.resources.read(modelPath(name, "/follow")) : null;
  if (source === void 0 || known === void 0) return section("Vendor’s source", { id: "follow" }, loading());
  if (known === null) {
    const about = "None. A model can take new bases that its vendor has signed from a registry or a web server: ";
    return section("Vendor’s source", { id: "follow" }, h("p", { class: "quiet" }, about, h("code", {}, "honed models follow")));
  }
  const { keys, name: named, hosts, every_hours: every, percent: percent2, report } = known;
  const terms = { source, keys, name: named, hosts, every_hours: every, percent: percent2, report };
  return section(
    "Vendor’s source",
    { id: "follow" },
    h("p", {}, h("code", {}, source)),
    facts3(known),
    [...known.blocked_by.map(({ detail: detail2 }) => detail2), ...known.error ? [known.error.detail] : []].map((detail2) => h("p", { class: "quiet", "data-key": detail2 }, detail2)),
    settingsForm(app, {
      name: `follow:${name}`,
      groups: [{ title: "Vendor’s source", settings: SETTINGS2 }],
      values: terms,
      stale: staleOf(model2),
      send: async (changed2) => {
        const wanted = { ...terms, ...changed2 };
        await app.api.put(path, { ...wanted, report: wanted.report || null });
        return `The source of ${name} is saved, and asked now.`;
      }
    }),
    reportView(known),
    h("div", { class: "buttons" }, remover(app, {
      label: "Unfollow …",
      about: "the source",
      title: `Unfollow the source of ${name}?`,
      detail: "New bases no longer come by themselves. An upgrade that has begun goes on.",
      yes: "Unfollow the source",
      name: `unfollow:${name}`,
      remove: () => app.api.remove(modelPath(name, "/follow")),
      stale: staleOf(model2),
      said: "Unfollowed."
    }))
  );
}
function facts3({ offered, taken, asked_at: asked, next_at: next, asking }) {
  return h(
    "dl",
    { class: "facts" },
    fact("offered", offered === null ? "nothing yet" : `version ${count(offered.version)}`),
    fact("taken", taken === null ? "none" : `version ${count(taken)}`),
    fact("asked", asking ? "now" : asked === null ? "not yet" : when(asked)),
    next !== null && fact("next", when(next))
  );
}
function reportView({ report, report_body: body }) {
  const says2 = "The model, version and digest of the base; whether the gate promoted it; the gate’s metric before and after, to two digits; the number of training samples, rounded down to a power of two. Never a sample, a label or a parameter.";
  return h(
    "details",
    { "data-key": "report" },
    h("summary", {}, report === null ? "What a report would say" : "What a report says"),
    h("p", { class: "quiet" }, says2),
    body === null ? h("p", { class: "quiet" }, "No upgrade from this source has ended yet.") : h("pre", {}, JSON.stringify(body, null, 2))
  );
}

// src/views/models/preprocess.ts
var CHOICES = {
  image: { resize: ["cover", "contain", "stretch"], channels: ["rgb", "gray"], layout: ["nchw", "nhwc"] },
  windows: { layout: ["time_first", "channels_first"], label: ["majority", "last"] },
  audio: {
    features: ["log_mel", "mfcc"],
    layout: ["bands_first", "time_first"],
    mel_scale: ["htk", "slaney"],
    mel_norm: ["none", "slaney"],
    log: ["natural", "decibel"],
    padding: ["reflect", "none"]
  }
};
var FIXED = {
  image: ["orientation", "background", "padding", "resample"],
  windows: ["length"],
  audio: ["channels", "resample", "window", "power", "floor", "fit", "fill"]
};
function preprocessView(app, model2) {
  const { preprocess, samples, latest_version: latest2 } = model2;
  const isSettled = Object.values(samples).some((each2) => each2 > 0) || (latest2 ?? 1) > 1;
  return section(
    "Preprocessing",
    { id: "preprocess" },
    preprocess.length === 0 && h("p", { class: "quiet" }, "None: samples are sent as raw tensors."),
    preprocess.length > 0 && isSettled && h("p", { class: "quiet" }, "There are samples or versions that depend on the rest, so only augment and, of texts, leave_out can be changed."),
    preprocess.map((each2, place) => descriptionForm(app, model2, { kind: "", ...each2 }, place, isSettled))
  );
}
function descriptionForm(app, model2, description, place, isSettled) {
  const { name, preprocess } = model2;
  const settings = Object.keys({ ...description, augment: null }).filter((key) => isSettled ? key === "augment" : !["input", "kind", ...FIXED[description.kind] ?? []].includes(key)).map((key) => settingOf(key, description[key], CHOICES[description.kind]?.[key]));
  return h(
    "div",
    { "data-key": String(description.input) },
    h("p", {}, h("strong", {}, String(description.input)), h("span", { class: "quiet" }, ` ${description.kind}`)),
    isSettled && pairs(Object.entries(description).filter(([key]) => !["input", "kind", "augment"].includes(key))),
    settingsForm(app, {
      name: `preprocess:${name}:${place}`,
      groups: [{ title: `Preprocessing of ${String(description.input)}`, settings }],
      values: description,
      pointer: preprocess.length > 1 ? `/preprocess/${place}` : "/preprocess",
      stale: staleOf({ name }),
      send: async (changed2) => {
        const wanted = preprocess.map((each2, at) => at === place ? { ...each2, ...changed2 } : each2);
        await app.api.patch(modelPath(name), { preprocess: wanted });
        return `Preprocessing of ${name} saved.`;
      }
    })
  );
}
function settingOf(name, value, choices) {
  if (choices) return { name, title: name, kind: "choice", options: choices.map((each2) => [each2, each2]) };
  return { name, title: name, kind: typeof value === "number" ? "number" : "json" };
}

// src/views/models/sets.ts
function baseSetView(app, model2) {
  const { name } = model2;
  const set = app.resources.read(modelPath(name, "/base-set"));
  return section(
    "Base set",
    { id: "base-set" },
    h("p", { class: "quiet" }, "Samples of the original task. Jobs replay a share of them; the gate judges versions on the held-out part, which no job trains on."),
    set ? baseFacts(set) : loading(set),
    h("details", { "data-key": "add" }, h("summary", {}, "Add samples"), h("div", { class: "form" }, additions(app, model2))),
    set != null && set.samples > 0 && h("div", { class: "buttons" }, opener(`ask-remove-base:${name}`, "Remove …", () => askRemoveBase(app, model2), "the base set", "danger"))
  );
}
function baseFacts({ samples, held_out: held, labels, changed_at: changed2 }) {
  if (samples === 0) return h("p", { "data-key": "none" }, "None. While it learns from this device, the model forgets part of what it could do before, unless it has samples of its original task.");
  return [
    h("dl", { class: "facts" }, fact("samples", count(samples)), fact("held out", count(held)), changed2 !== null && fact("changed", when(changed2))),
    labels.length > 0 && h("p", { class: "quiet", "data-key": "labels" }, labels.map(({ name, label: label2, count: number2 }) => `${name ?? label2} ${count(number2)}`).join(", "))
  ];
}
function told3({ accepted: accepted2, duplicates }) {
  return `Added to the base set: ${plural(accepted2, "new sample")}, and ${count(duplicates)} that the model already had.`;
}
function additions(app, model2) {
  const { name } = model2;
  const path = modelPath(name, "/base-set");
  const send2 = (file) => void app.act(`base-file:${name}`, staleOf(model2), () => app.api.upload(path, typed(file)).then(told3));
  return [
    settingsForm(app, {
      name: `base-first:${name}`,
      groups: [{ title: "The model’s own samples", settings: [{ name: "first", title: "Use the model’s first labelled samples", kind: "number", placeholder: "how many" }] }],
      values: { first: null },
      save: "Add them",
      stale: staleOf(model2),
      send: async (given) => told3(await app.api.post(path, given, true))
    }),
    h(
      "div",
      { class: "buttons", "data-key": "file" },
      fileButton("Choose a file", send2, { accept: ".zip,.npz,.csv,.json", disabled: app.state.pending.has(`base-file:${name}`) }),
      h("p", { class: "quiet" }, `a sample archive (.zip)${fileKind(model2) === null ? ", .npz, .csv or .json" : fileKind(model2) === "text" ? ", .csv or .json" : ""}; every sample needs a label`),
      outcome(app, `base-file:${name}`)
    )
  ];
}
function askRemoveBase(app, model2) {
  const { name } = model2;
  confirm(app, {
    title: `Remove the base set of ${name}?`,
    detail: "Samples taken from the model return to their former split; those uploaded for the base set are deleted. Jobs no longer replay anything, and the gate judges on the other samples.",
    yes: "Remove the base set",
    name: `remove-base:${name}`,
    stale: staleOf(model2),
    run: async () => {
      const gone = await app.api.remove(modelPath(name, "/base-set"), true);
      return `Base set removed: ${plural(gone.given_back, "sample")} returned, ${count(gone.deleted)} deleted.`;
    }
  });
}
function referenceView(app, model2) {
  const { name } = model2;
  const set = app.resources.read(modelPath(name, "/reference"));
  const freeze = () => app.api.put(modelPath(name, "/reference")).then(({ samples }) => `The reference set has ${plural(samples, "sample")}.`);
  const isFrozen = set?.frozen_at != null;
  return section(
    "Reference set",
    { id: "reference" },
    h("p", { class: "quiet" }, "A frozen selection of validation samples, so that the gate also judges every version on the same samples. Samples that are deleted or moved to training drop out."),
    set === void 0 ? loading() : referenceFacts(set),
    h(
      "div",
      { class: "buttons" },
      press(app, { name: `freeze:${name}`, label: isFrozen ? "Freeze the current validation samples instead" : "Freeze the validation samples", about: `of ${name}`, stale: staleOf(model2), run: freeze }),
      isFrozen && remover(app, {
        label: "Remove …",
        about: "the reference set",
        title: `Remove the reference set of ${name}?`,
        detail: "Its samples are kept. The gate then uses only the validation samples.",
        yes: "Remove the reference set",
        name: `remove-reference:${name}`,
        remove: () => app.api.remove(modelPath(name, "/reference")),
        stale: staleOf(model2),
        said: "Reference set removed."
      })
    )
  );
}
function referenceFacts(set) {
  if (set === null || set.frozen_at === null) return h("p", { "data-key": "none" }, "None. The gate uses only the validation samples, which change as samples arrive.");
  return h("dl", { class: "facts" }, fact("samples", count(set.samples)), fact("frozen", when(set.frozen_at)));
}

// src/views/models/triggers.ts
var SETTINGS3 = [
  { name: "name", title: "Name", kind: "text", placeholder: "automatic" },
  { name: "cron", title: "Schedule, as cron", kind: "text", placeholder: "30 2 * * mon-fri" },
  { name: "time_zone", title: "Time zone", kind: "text", placeholder: "the device’s" },
  { name: "new_samples", title: "New labels", kind: "number", placeholder: "none" },
  { name: "eligible_after", title: "Daily, at the first chance after", kind: "text", placeholder: "02:00" },
  { name: "at_most_every_hours", title: "Minimum interval", unit: "hours", kind: "number", isOptional: true }
];
var EMPTY = { name: null, cron: null, time_zone: null, new_samples: null, eligible_after: null, at_most_every_hours: null };
function triggersView(app, model2) {
  const list2 = triggers(app, model2.name);
  return section(
    "Triggers",
    { id: "triggers" },
    list2 === void 0 ? loading() : [
      (list2 ?? []).length === 0 && h("p", { class: "quiet", "data-key": "none" }, "No triggers: jobs are started by hand or by apps."),
      h("ul", { class: "rows", "data-key": "list" }, (list2 ?? []).map((trigger) => triggerItem(app, model2, trigger))),
      addForm2(app, model2)
    ]
  );
}
function stale({ name }) {
  return [modelPath(name, "/triggers")];
}
function addForm2(app, model2) {
  const { name } = model2;
  return h(
    "details",
    { "data-key": "add" },
    h("summary", {}, "Add a trigger"),
    settingsForm(app, {
      name: `trigger:${name}`,
      groups: [{ title: "A new trigger", settings: SETTINGS3 }],
      values: EMPTY,
      save: "Add the trigger",
      stale: stale(model2),
      send: (given) => app.api.post(modelPath(name, "/triggers"), given).then((made) => `Trigger ${made.name} added.`)
    })
  );
}
function triggerItem(app, model2, trigger) {
  const { id, name, enabled } = trigger;
  const path = modelPath(model2.name, `/triggers/${id}`);
  return h(
    "li",
    { "data-key": `trigger-${id}`, "aria-label": `Trigger ${name}` },
    h("div", { class: "row-head" }, h("h3", {}, name), !enabled && badge("held", "switched off"), h("p", { class: "quiet" }, waitsFor(trigger))),
    h("p", {}, nextText(trigger)),
    h("p", { class: "quiet" }, lastText(trigger)),
    h(
      "div",
      { class: "buttons" },
      press(app, {
        name: `switch:${id}`,
        label: enabled ? "Switch off" : "Switch on",
        about: name,
        stale: stale(model2),
        run: () => app.api.patch(path, { enabled: !enabled }).then(() => null)
      }),
      remover(app, {
        label: "Delete …",
        about: name,
        title: `Delete the trigger ${name}?`,
        detail: "Jobs that it has queued are kept.",
        yes: "Delete the trigger",
        name: `delete-trigger:${id}`,
        remove: () => app.api.remove(modelPath(model2.name, `/triggers/${id}`)),
        stale: stale(model2),
        said: `Trigger ${name} deleted.`
      })
    ),
    h("details", {}, h("summary", {}, "Change"), changeForm(app, model2, trigger, path))
  );
}
function changeForm(app, model2, trigger, path) {
  return settingsForm(app, {
    name: `trigger:${model2.name}:${trigger.id}`,
    groups: [{ title: trigger.name, settings: SETTINGS3 }],
    values: trigger,
    stale: stale(model2),
    send: (changed2) => app.api.patch(path, changed2).then(() => `Trigger ${trigger.name} saved.`)
  });
}
function waitsFor({ cron, time_zone: zone, new_samples: samples, eligible_after: after, at_most_every_hours: hours2 }) {
  const parts = [
    cron === null ? "" : `${cron}${zone === null ? "" : ` (${zone})`}`,
    samples === null ? "" : plural(samples, "new label"),
    after === null ? "" : `daily, first chance after ${after}`,
    hours2 === null ? "" : `at most every ${plural(hours2, "hour")}`
  ];
  return parts.filter(Boolean).join(", ");
}
function nextText({ next_at: next, enabled, new_samples: samples }) {
  if (!enabled) return ["Will not fire."];
  if (next !== null) return ["Fires next: ", h("time", { datetime: next }, clock(next))];
  return [samples === null ? "Will not fire again." : "Fires when there are enough new labels."];
}
function lastText({ fired_at: fired, job_id: job2, outcome: outcome2 }) {
  if (fired === null) return [outcome2 || "Has not fired yet."];
  return ["Fired ", when(fired), job2 === null ? "" : [": ", h("a", { href: to(["jobs", job2]) }, `job ${job2}`)], outcome2 ? `. ${outcome2}` : ""];
}

// src/views/models/settings.ts
var KEPT = [
  {
    key: "quota",
    title: "Sample quota",
    settings: [
      limit("max_samples", "Maximum samples"),
      limit("max_bytes", "Maximum space", "MiB", 2 ** 20),
      { name: "when_full", title: "When full, evict", kind: "choice", options: [["oldest", "the oldest"], ["reservoir", "random ones"], ["balanced", "the oldest of the largest class"]] }
    ]
  },
  {
    key: "retention",
    title: "Version retention",
    settings: [limit("max_versions", "Maximum versions"), limit("max_age_days", "Maximum age", "days"), limit("max_bytes", "Maximum space", "MiB", 2 ** 20)]
  }
];
function gateOf({ loss }) {
  return {
    key: "gate",
    title: "Gate",
    settings: [
      { name: "mode", title: "A new version becomes latest", kind: "choice", options: [["if_not_worse", "if it is not worse"], ["always", "always"], ["manual", "only by hand"]] },
      { name: "metric", title: "Metric", kind: "choice", options: [.../* @__PURE__ */ new Set([...metricsOf(loss), ...taskOf(loss)?.byClass ?? []])].map((name) => [name, metricWords(name)]) },
      { name: "label", title: "Only of the class or number", kind: "text", placeholder: "all" },
      { name: "margin", title: "Largest drop accepted as chance", kind: "number" },
      { name: "min_validation_samples", title: "Minimum validation samples", kind: "number" },
      { name: "min_per_class", title: "Minimum validation samples per class", kind: "number" },
      { name: "base_set", title: "Judge on the base set too", kind: "flag" },
      { name: "base_margin", title: "Largest accepted drop on the base set", kind: "number" },
      { name: "hold_on_drift", title: "Hold versions back while recent inputs have drifted", kind: "flag" }
    ]
  };
}
function settingsTab(app, model2) {
  const { name } = model2;
  const stale2 = staleOf(model2);
  return h(
    "div",
    { class: "columns", "data-key": "settings" },
    h(
      "div",
      { class: "stack" },
      [gateOf(model2), ...KEPT].map(
        ({ key, title, settings }) => section(
          title,
          { id: key },
          settingsForm(app, {
            name: `${key}:${name}`,
            groups: [{ title, settings }],
            values: model2[key],
            pointer: `/${key}`,
            stale: stale2,
            send: async (changed2) => {
              const body = key === "gate" ? changed2 : { ...model2[key], ...changed2 };
              await app.api.patch(modelPath(name), { [key]: body });
              return `${title} of ${name} saved.`;
            }
          })
        )
      ),
      baseSetView(app, model2),
      referenceView(app, model2)
    ),
    h("div", { class: "stack" }, baseView(app, model2), followView(app, model2), classesView3(app, model2), triggersView(app, model2), preprocessView(app, model2), federationView(app, model2), aboutView(model2), section("Delete", { id: "delete" }, deletion(app, model2)))
  );
}
function aboutView(model2) {
  const { loss, optimizer, engine, output, parameters, notes, hyperparameters } = model2;
  const details = [
    ["loss", typeof loss === "string" ? loss : `output ${loss.output}`],
    ["optimizer", optimizer],
    ["engine", engine],
    ["output", output],
    ["trainable parameters", count(parameters.trainable)],
    ["frozen parameters", count(parameters.frozen)],
    ...Object.entries(hyperparameters)
  ];
  return section(
    "Details",
    { id: "about" },
    pairs(details),
    notes.length > 0 && h("ul", { class: "quiet" }, notes.map((note) => h("li", {}, note))),
    h("details", {}, h("summary", {}, `Trainable initializers (${parameters.names.length})`), h("ul", { class: "names" }, parameters.names.map((each2) => h("li", {}, h("code", {}, each2)))))
  );
}
function deletion(app, { name }) {
  const button = remover(app, {
    label: "Delete the model …",
    about: name,
    title: `Delete ${name}?`,
    detail: "This permanently deletes its samples, jobs, checkpoints and versions. Apps can no longer fetch it.",
    yes: "Delete the model",
    name: `delete-model:${name}`,
    remove: () => app.api.remove(modelPath(name)).then(() => app.go(to(["models"]))),
    stale: [],
    said: `${name} deleted.`
  });
  return h("div", { class: "buttons" }, button);
}

// src/views/models/complete.ts
var SUGGESTIONS = 3;
var TOKENS = 40;
var FIELD = "typed";
function completionField(app, model2) {
  const typed2 = app.draft(`typed:${model2.name}`, () => ({ text: "", suggestions: [], problem: null, abort: null }));
  const takeOne = ({ text: text3, replaces }) => {
    const before = typed2.text.slice(0, typed2.text.length - replaces);
    setText(typed2, `${before}${before === "" || /\s$/.test(before) ? "" : " "}${text3} `);
    void suggest(app, model2, typed2);
  };
  const type = (event) => {
    typed2.text = event.currentTarget.value;
    void suggest(app, model2, typed2);
  };
  const press3 = (event) => {
    const wanted = event.altKey ? typed2.suggestions[Number(event.key) - 1] : void 0;
    if (wanted === void 0) return;
    event.preventDefault();
    takeOne(wanted);
  };
  return h(
    "div",
    { class: "form", "data-key": "typed" },
    h(
      "label",
      { class: "form" },
      h("span", {}, "Text", h("span", { class: "quiet" }, " the model suggests how it goes on; Alt+1 to 3 take a word")),
      h("textarea", { id: FIELD, rows: 4, dir: "auto", onkeydown: press3, oninput: type }, typed2.text)
    ),
    h(
      "ul",
      { class: "suggestions", "aria-label": "Suggestions" },
      typed2.suggestions.map(
        (each2) => h(
          "li",
          { "data-key": each2.text },
          h("button", { type: "button", onclick: () => takeOne(each2) }, each2.text, h("span", { class: "quiet number" }, ` ${percent(each2.probability)}`))
        )
      )
    ),
    h("div", { class: "buttons" }, h("button", { type: "button", disabled: typed2.abort !== null, onclick: () => void writeOn(app, model2, typed2) }, "Write on")),
    typed2.problem === null ? null : h("p", { class: "problem", role: "alert" }, typed2.problem)
  );
}
function setText(typed2, text3) {
  typed2.text = text3;
  const field3 = element(FIELD, HTMLTextAreaElement);
  field3.value = text3;
  field3.focus();
}
async function suggest(app, model2, typed2) {
  if (typed2.text.trim() === "") {
    typed2.abort?.abort();
    typed2.suggestions = [];
    app.draw();
    return;
  }
  const answer = await complete(app, model2, typed2, { suggestions: SUGGESTIONS });
  if (answer !== null) typed2.suggestions = answer.suggestions;
  app.draw();
}
async function writeOn(app, model2, typed2) {
  const answer = await complete(app, model2, typed2, { max_tokens: TOKENS, temperature: 0.7, top_k: 40 });
  if (answer === null) return app.draw();
  setText(typed2, typed2.text + answer.text);
  await suggest(app, model2, typed2);
}
async function complete(app, model2, typed2, options) {
  typed2.abort?.abort();
  const controller = typed2.abort = new AbortController();
  app.draw();
  try {
    const answer = await app.api.upload(modelPath(model2.name, "/complete"), json({ text: typed2.text, ...options }), controller.signal);
    typed2.problem = null;
    return controller.signal.aborted ? null : answer;
  } catch (error) {
    if (controller.signal.aborted) return null;
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    typed2.problem = error.message;
    typed2.suggestions = [];
    return null;
  } finally {
    if (typed2.abort === controller) typed2.abort = null;
  }
}
function json(body) {
  return new Blob([JSON.stringify(body)], { type: "application/json" });
}

// src/views/models/try.ts
var STORED_SHOWN = 12;
var JSON_TYPE = "application/json";
var SPLITS = [["validation", "validation"], ["train", "train"], ["", "any"]];
function tryTab(app, model2) {
  const trial = app.draft(nameOf2(model2), () => ({ body: null, picture: null, answer: null, text: void 0, kept: null }));
  const id = Number(app.route.query.get("sample"));
  return h(
    "div",
    {
      class: "stack",
      "data-key": "try",
      ...dropping(({ files: [file] }) => {
        if (file && fileKind(model2) !== null) void predict(app, model2, trial, typed(file));
      })
    },
    h(
      "div",
      { class: "columns", "data-key": "columns" },
      section("Try it", { id: "trial" }, fieldOf(app, model2, trial), outcome(app, nameOf2(model2))),
      id > 0 ? storedAnswer(app, model2, id) : trialAnswer(app, model2, trial)
    ),
    storedView(app, model2, id)
  );
}
function nameOf2({ name }) {
  return `try:${name}`;
}
function fieldOf(app, model2, trial) {
  if (taskOf(model2.loss)?.continuesTexts) return completionField(app, model2);
  if (fileKind(model2) === "text") return textField(app, model2, trial);
  return fileKind(model2) === null ? valuesField(app, model2, trial) : fileField2(app, model2, trial);
}
function textField(app, model2, trial) {
  const isPair = model2.preprocess.some(({ pairs: pairs3 }) => pairs3 === true);
  const send2 = (event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    void predict(app, model2, trial, new Blob([JSON.stringify(Object.fromEntries(given))], { type: JSON_TYPE }), String(given.get("text")));
  };
  const field3 = (name, title) => h("label", { class: "form", "data-key": name }, h("span", {}, title), h("textarea", { name, rows: 3, dir: "auto" }));
  return h(
    "form",
    { class: "form", onsubmit: send2, novalidate: true },
    field3("text", isPair ? "First text" : "Text"),
    isPair ? field3("text_pair", "Second text") : null,
    predictButton(app, model2)
  );
}
function predictButton(app, model2) {
  return h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary", disabled: app.state.pending.has(nameOf2(model2)) }, "Predict"));
}
function fileField2(app, model2, trial) {
  const [what, accept] = fileKind(model2) === "image" ? ["an image", "image/*"] : ["a recording", ".wav,.flac"];
  const take2 = (file) => void predict(app, model2, trial, typed(file));
  const { picture: picture2 } = trial;
  const draw = (canvas) => {
    if (picture2) canvas.getContext("2d")?.drawImage(picture2, 0, 0);
  };
  return [
    h("div", { class: "drop" }, h("p", { class: "quiet" }, `Drop ${what} here, or`), fileButton(`Choose ${what}`, take2, { accept })),
    picture2 && h("canvas", { class: "tried", role: "img", "aria-label": "The image", width: picture2.width, height: picture2.height, onpaint: draw })
  ];
}
function valuesField(app, model2, trial) {
  const send2 = (event) => {
    event.preventDefault();
    const given = new FormData(event.currentTarget);
    const inputs = Object.fromEntries(model2.inputs.map(({ name, shape }) => [name, tensorOf2(String(given.get(name)), shape)]));
    void predict(app, model2, trial, new Blob([JSON.stringify({ inputs })], { type: JSON_TYPE }));
  };
  return h(
    "form",
    { class: "form", onsubmit: send2, novalidate: true },
    model2.inputs.map(
      ({ name, shape }) => h(
        "label",
        { class: "form", "data-key": name },
        h("span", {}, name, h("span", { class: "quiet" }, ` ${shape.join("×") || "one"} numbers, separated by commas or spaces`)),
        h("textarea", { name, rows: 3, spellcheck: "false" })
      )
    ),
    predictButton(app, model2)
  );
}
function tensorOf2(text3, shape) {
  const numbers = text3.split(/[\s,;[\]]+/).filter(Boolean).map(Number);
  const nest = (values, sizes) => {
    const [size, ...rest] = sizes;
    if (size === void 0) return values[0];
    if (rest.length === 0) return values;
    const each2 = values.length / size;
    return Array.from({ length: size }, (_, at) => nest(values.slice(at * each2, (at + 1) * each2), rest));
  };
  const count2 = shape.reduce((product, size) => product * size, 1);
  return numbers.length === count2 ? nest(numbers, shape) : numbers;
}
async function predict(app, model2, trial, body, text3) {
  app.go(to(["models", model2.name, "try"]), { isSame: true });
  const done = await app.act(nameOf2(model2), [], async () => {
    const answer = await app.api.upload(modelPath(model2.name, "/predict"), body);
    const picture2 = fileKind(model2) === "image" ? await createImageBitmap(body) : null;
    const shown2 = text3 ?? (fileKind(model2) === "text" ? await body.text() : void 0);
    Object.assign(trial, { body, answer, picture: picture2, text: shown2, kept: null });
    return null;
  });
  if (!done) Object.assign(trial, { answer: null, picture: null });
  app.draw();
}
function trialAnswer(app, model2, trial) {
  const { answer, body, kept, text: text3 } = trial;
  if (answer === null || body === null) return null;
  const classes = likelyClassesOf(model2);
  const choose = async (index, name) => {
    await keep(app, model2, body, index);
    trial.kept = index;
    return `Saved as a sample labelled ${name}.`;
  };
  return answered2(
    answer,
    classes.length > 0 && h("p", { class: "quiet" }, kept === null ? "Click the right class to save this as a training sample." : `Saved as a sample labelled ${classes[Number(kept)]}.`),
    predictedView(model2, answer, { text: text3, photo: trial.picture }),
    takeParts(app, model2, answer, { name: `keep:${model2.name}`, isTaken: kept !== null }, async (parts, what) => {
      await keep(app, model2, body, parts);
      trial.kept = parts;
      return `Saved as a sample with these ${what}.`;
    }),
    answerView(app, answer, classes.length > 0 && kept === null ? { name: `keep:${model2.name}`, chosen: null, stale: staleOf(model2), choose } : null)
  );
}
async function keep(app, model2, body, label2) {
  const path = modelPath(model2.name, "/samples");
  if (body.type !== JSON_TYPE) await app.api.upload(withQuery(path, { label: typeof label2 === "object" ? JSON.stringify(label2) : String(label2) }), body);
  else await app.api.post(path, { ...JSON.parse(await body.text()), label: label2 });
}
function answered2({ version }, ...children) {
  return section(`Prediction of version ${version}`, { id: "answer" }, children);
}
function storedAnswer(app, model2, id) {
  const [known, answer] = [sample(app, model2, id), prediction(app, model2, id)];
  if (known === null || answer === null) return section(`Sample ${id}`, { id: "answer" }, h("p", { class: "quiet" }, known ? "This sample cannot be predicted." : "Sample not found."));
  if (known === void 0 || answer === void 0) return section(`Sample ${id}`, { id: "answer" }, loading());
  const choose = (index, name) => app.api.patch(modelPath(model2.name, `/samples/${id}`), { label: index }).then(() => `Sample ${id} labelled ${name}.`);
  const { label: label2 } = known;
  const chosen3 = typeof label2 === "number" ? label2 : null;
  return answered2(
    answer,
    h("p", { class: "quiet" }, `Sample ${id}: ${labelText(model2, label2)}`),
    h(
      "div",
      { class: "beside", "data-key": "sample" },
      h("div", { class: "tried" }, sampleView(app, model2, known)),
      Array.isArray(label2) && severalOf(model2) === null && model2.target.span_types === null && arrayView("label", label2, model2.target.num_classes),
      predictedView(model2, answer, subjectOf(app, model2, known))
    ),
    takeParts(app, model2, answer, { name: `label-stored:${id}`, isTaken: false }, async (parts, what) => {
      await app.api.patch(modelPath(model2.name, `/samples/${id}`), { label: parts });
      return `Sample ${id} labelled with these ${what}.`;
    }),
    answerView(app, answer, likelyClassesOf(model2).length > 0 ? { name: `label-stored:${id}`, chosen: chosen3, stale: staleOf(model2), choose } : null)
  );
}
function storedView(app, model2, id) {
  const wanted = app.draft(`stored:${model2.name}`, () => ({ split: model2.samples.validation > 0 ? "validation" : "" }));
  const path = withQuery(modelPath(model2.name, "/samples"), { split: wanted.split || null });
  const pick = (split) => {
    wanted.split = split;
    app.draw();
  };
  return section(
    "Stored samples",
    { id: "stored" },
    filters(choice("Split", wanted.split, SPLITS, pick)),
    pagesView(
      app,
      path,
      pagesOf(app, path, STORED_SHOWN),
      "No samples.",
      (items) => h("ul", { class: "picks", "aria-label": "Stored samples" }, items.map((each2) => storedItem(app, model2, each2, each2.id === id)))
    )
  );
}
function storedItem(app, model2, each2, isChosen) {
  const text3 = labelText(model2, each2.label);
  return h(
    "li",
    { "data-key": `stored-${each2.id}` },
    h(
      "a",
      { class: "pick", href: to(["models", model2.name, "try"], { sample: each2.id }), "aria-current": isChosen ? "true" : null, "aria-label": `Try sample ${each2.id}, ${text3}` },
      sampleView(app, model2, each2),
      h("span", { class: "caption" }, h("span", { class: "label" }, text3), h("span", { class: "quiet number" }, String(each2.id)))
    )
  );
}

// src/views/versions/aliases.ts
function aliasesView(app, model2, list2) {
  const path = modelPath(model2.name, "/aliases");
  const known = app.resources.read(path, (api) => api.all(path));
  return section(
    "Aliases",
    { id: "aliases" },
    known === void 0 ? loading() : h("ul", { class: "rows", "data-key": "list" }, (known ?? []).map((each2) => aliasItem(app, model2, each2))),
    h("details", { "data-key": "set" }, h("summary", {}, "Set an alias"), setForm(app, model2, list2))
  );
}
function aliasItem(app, model2, { alias, version }) {
  return h(
    "li",
    { "data-key": alias, "aria-label": `Alias ${alias}` },
    h(
      "div",
      { class: "row-head" },
      h("strong", {}, alias),
      h("span", {}, `version ${version}`),
      alias === "latest" ? h("span", { class: "quiet" }, "what apps fetch") : press(app, {
        name: `unalias:${alias}`,
        label: "Remove",
        about: `alias ${alias}`,
        stale: staleOf(model2),
        run: () => app.api.remove(modelPath(model2.name, `/aliases/${encodeURIComponent(alias)}`)).then(() => `Alias ${alias} removed.`)
      })
    )
  );
}
function setForm(app, model2, list2) {
  const newest = String(list2[0]?.version);
  return settingsForm(app, {
    name: `alias:${model2.name}`,
    groups: [
      {
        title: "An alias",
        settings: [
          { name: "alias", title: "Alias", kind: "text", placeholder: "stable" },
          { name: "version", title: "Version", kind: "choice", options: list2.map(({ version }) => [String(version), `version ${version}`]) }
        ]
      }
    ],
    values: { alias: null, version: newest },
    pointer: "/path",
    save: "Set the alias",
    stale: staleOf(model2),
    send: async ({ alias, version = newest }) => {
      const set = await app.api.put(modelPath(model2.name, `/aliases/${encodeURIComponent(String(alias ?? " "))}`), { version: Number(version) });
      return `${set.alias} is now version ${set.version}.`;
    }
  });
}

// src/views/versions/checkpoints.ts
var PAGE = 5;
function checkpointsView(app, model2) {
  const path = modelPath(model2.name, "/checkpoints");
  const { items, isWhole } = pagesOf(app, path, PAGE);
  if (!items?.length) return null;
  return section(
    "Checkpoints",
    { id: "checkpoints" },
    h("ul", { class: "rows", "data-key": "list" }, items.map((each2) => checkpointItem(app, model2, each2))),
    moreButton(app, path, isWhole)
  );
}
function checkpointItem(app, model2, checkpoint) {
  const { id, role, pinned, job_id: job2, step: step2, epoch, size_bytes: size, note } = checkpoint;
  const about = `checkpoint ${id}`;
  return h(
    "li",
    { "data-key": `checkpoint-${id}`, "aria-label": `Checkpoint ${id}` },
    h(
      "div",
      { class: "row-head" },
      h("h3", {}, `Checkpoint ${id}`),
      h("span", { class: "badge" }, role),
      pinned && badge("latest", "pinned"),
      h("p", { class: "quiet" }, when(checkpoint.created_at))
    ),
    h("p", { class: "quiet" }, h("a", { href: to(["jobs", job2]) }, `job ${job2}`), `, step ${count(step2)}, epoch ${count(epoch)} · ${bytes(size)}`),
    note !== "" && h("p", {}, note),
    h(
      "div",
      { class: "buttons" },
      opener(`train-from:${id}`, "Train from this …", () => openTraining(app, model2, checkpoint), about),
      downloader(app, `/v1/checkpoints/${id}/content`, `checkpoint-${id}`, { name: `content:${id}`, label: "Download", about })
    ),
    h(
      "details",
      {},
      h("summary", {}, "Pin, note, delete"),
      h(
        "div",
        { class: "stack" },
        changeForm2(app, model2, checkpoint),
        h("div", { class: "buttons" }, deleteButton(app, model2, id))
      )
    )
  );
}
function changeForm2(app, { name }, { id, pinned, note }) {
  return settingsForm(app, {
    name: `checkpoint:${id}`,
    groups: [
      {
        title: `Checkpoint ${id}`,
        settings: [
          { name: "note", title: "Note", kind: "text" },
          { name: "pinned", title: "Keep until it is deleted by hand", kind: "flag" }
        ]
      }
    ],
    values: { pinned, note: note || null },
    stale: [modelPath(name, "/checkpoints")],
    send: async (changed2) => {
      await app.api.patch(`/v1/checkpoints/${id}`, "note" in changed2 ? { ...changed2, note: changed2.note ?? "" } : changed2);
      return `Checkpoint ${id} saved.`;
    }
  });
}
function deleteButton(app, { name }, id) {
  return remover(app, {
    label: "Delete …",
    about: `checkpoint ${id}`,
    title: `Delete checkpoint ${id}?`,
    detail: "Jobs can no longer start from it.",
    yes: "Delete the checkpoint",
    name: `delete-checkpoint:${id}`,
    remove: () => app.api.remove(`/v1/checkpoints/${id}`),
    stale: [modelPath(name, "/checkpoints")],
    said: `Checkpoint ${id} deleted.`
  });
}

// src/views/versions/drift.ts
function driftView(app, model2, list2) {
  const fetched = latest(app, model2, list2);
  if (fetched === null || fetched.job_id === null) return null;
  const asked = app.draft(`drift:${model2.name}`, () => ({ isSo: false }));
  const isShown = asked.isSo || drifts(app, [model2]).length > 0;
  const found2 = isShown ? drift(app, model2) : null;
  return section(
    "Drift",
    { id: "drift" },
    found2 === void 0 ? loading() : found2 === null ? introduction(fetched) : reportView2(found2),
    h(
      "div",
      { class: "buttons", "data-key": "buttons" },
      press(app, {
        name: `drift:${model2.name}`,
        label: isShown ? "Compare again" : "Compare",
        about: "recent inputs",
        stale: ["/v1/drifts"],
        run: async () => {
          asked.isSo = true;
          return null;
        }
      })
    )
  );
}
function introduction({ version }) {
  return h("p", { class: "quiet", "data-key": "introduction" }, `Compares recent inputs with those that version ${version} was trained on.`);
}
function reportView2({ version, drifted, training_samples: before, recent_samples: recent, compared: compared2, features }) {
  const samples = `${count(recent)} recent samples, ${count(before)} that version ${version} was trained on`;
  if (drifted === null) return [h("p", { "data-key": "few" }, `Too few samples to compare: ${samples}.`)];
  return [
    h("p", { "data-key": "found" }, drifted ? badge("held", "drifted") : badge("latest", "no drift"), h("span", { class: "quiet" }, ` ${samples}`)),
    table("Drift by feature", ["Feature", "PSI", "Limit", "Mean, then → now"], features.map(featureRow)),
    compared2 > features.length && h("p", { class: "quiet", "data-key": "rest" }, `and ${count(compared2 - features.length)} more that have drifted less`)
  ];
}
function featureRow({ input, feature, name, psi, limit: limit2, training_mean: before, recent_mean: now }) {
  const [state, said2] = psi > limit2 ? ["blocks", "above its limit"] : ["holds", "within its limit"];
  return h(
    "tr",
    { "data-key": `${input}-${feature}` },
    h("th", { scope: "row" }, h("span", { class: `sign ${state}`, role: "img", "aria-label": said2 }), name ?? `${input}[${feature}]`),
    h("td", { class: "number" }, decimal(psi)),
    h("td", { class: "number" }, decimal(limit2)),
    h("td", { class: "number" }, `${decimal(before)} → ${decimal(now)}`)
  );
}

// src/views/versions/trained.ts
var SHOWN2 = 12;
function openTrained(app, model2, number2) {
  const path = withQuery(modelPath(model2.name, `/versions/${number2}/samples`), { limit: SHOWN2 });
  app.open(() => {
    const seen = app.resources.read(path);
    return h(
      "div",
      { class: "question", "data-key": "trained" },
      h("h2", { id: "dialog-title" }, `What version ${number2} was trained on`),
      seen === void 0 ? loading() : seen === null || seen.total === null ? h("p", {}, "Not known.") : seenView(app, model2, seen, seen.total),
      h("div", { class: "buttons", "data-key": "buttons" }, h("button", { type: "button", class: "primary", onclick: () => app.close() }, "Close"))
    );
  });
}
function seenView(app, model2, { items }, total2) {
  return [
    h("p", { "data-key": "total" }, `${plural(total2, "sample")}, including those of the versions it started from. `, h("a", { href: to(["models", model2.name, "samples"]) }, "Samples of the model")),
    h(
      "ul",
      { class: showsPictures(model2) ? "changed pictures" : "changed", "aria-label": "Samples", "data-key": "items" },
      items.map(
        ({ id, deleted }) => h(
          "li",
          { "data-key": id },
          h("span", { class: "quiet number" }, `sample ${id}`),
          deleted ? h("span", { class: "quiet" }, "deleted") : sampleView(app, model2, { id, size_bytes: 1 })
        )
      )
    ),
    total2 > items.length && h("p", { class: "quiet", "data-key": "rest" }, `and ${count(total2 - items.length)} more`)
  ];
}

// src/views/versions/variants.ts
var KINDS2 = [
  { variant: "int8", title: "int8", what: "quantized, a quarter of the size", suffix: ".int8.onnx" },
  { variant: "ort", title: "ORT format", what: "for ONNX Runtime on phones", suffix: ".ort" }
];
function variantsView(app, model2, version) {
  const made = version.variants.length;
  return h(
    "details",
    { class: "variants", "data-key": "variants" },
    h("summary", {}, made === 0 ? "Variants" : `Variants (${made} created)`),
    h("ul", { class: "rows" }, KINDS2.map((kind) => variantItem(app, model2, version, kind)))
  );
}
function variantItem(app, { name }, version, { variant, title, what, suffix }) {
  const number2 = version.version;
  const known = version.variants.find((each2) => each2.variant === variant);
  const size = known?.size_bytes ?? null;
  const isRefused = known !== void 0 && size === null;
  return h(
    "li",
    { "data-key": variant },
    h("p", {}, h("strong", {}, title), h("span", { class: "quiet" }, ` ${size === null ? what : bytes(size)}`)),
    known !== void 0 && h("p", { class: isRefused ? "problem" : "quiet" }, known.reason),
    !isRefused && downloader(app, withQuery(modelPath(name, `/versions/${number2}/model.onnx`), { variant }), `${name}-${number2}${suffix}`, {
      name: `variant:${name}:${number2}:${variant}`,
      label: known ? "Download" : "Create and download",
      about: `${title} of version ${number2}`,
      stale: [modelPath(name, "/versions")],
      said: `${title} of version ${number2} downloaded.`
    })
  );
}

// src/views/versions/versions.ts
function timeline(app, model2, list2) {
  return section(
    "Versions",
    { id: "versions" },
    holdView(app, model2),
    h("ol", { class: "timeline", reversed: true }, list2.map((version) => versionView(app, model2, list2, version)))
  );
}
function holdView(app, model2) {
  const { name, held_since: since } = model2;
  if (since === null) return null;
  return h(
    "div",
    { class: "notice held", "data-key": "hold" },
    h("p", {}, "Held since ", when(since), ": new versions are not promoted."),
    press(app, {
      name: `release:${name}`,
      label: "Release",
      about: name,
      stale: staleOf(model2),
      run: () => app.api.post(modelPath(name, "/release")).then(() => "The gate decides on promotion again.")
    })
  );
}
function versionView(app, model2, list2, version) {
  const number2 = version.version;
  const isLatest = model2.latest_version === number2;
  const judged = measureOf(model2, list2, version);
  return h(
    "li",
    { "data-key": `version-${number2}`, class: isLatest ? "latest" : null, "aria-label": `Version ${number2}` },
    h(
      "div",
      { class: "row-head" },
      h("h3", {}, `Version ${number2}`),
      badges(version, isLatest),
      h("p", { class: "quiet" }, when(version.created_at), ` · ${bytes(version.size_bytes)}`, jobOf(version))
    ),
    judged === null ? null : measureView(judged, version.promoted || version.job_id === null),
    h("p", { class: "reason" }, version.job_id === null ? "The model as it was registered." : version.reason),
    h("div", { class: "buttons" }, moves(app, model2, version, isLatest)),
    variantsView(app, model2, version)
  );
}
function jobOf({ job_id: id }) {
  return id === null ? [] : [" · ", h("a", { href: to(["jobs", id]) }, `job ${id}`)];
}
function badges(version, isLatest) {
  const others = version.aliases.filter((alias) => alias !== "latest");
  return [
    isLatest && badge("latest", "latest"),
    version.job_id !== null && !version.promoted && badge("held", "not promoted"),
    version.job_id !== null && version.promoted && !isLatest && badge("queued", "promoted earlier"),
    others.map((alias) => h("span", { class: "badge" }, alias))
  ];
}
function moves(app, model2, version, isLatest) {
  const { name } = model2;
  const number2 = version.version;
  const about = `version ${number2}`;
  return [
    isLatest ? number2 > 1 && opener(`ask-rollback:${name}`, "Roll back …", () => askRollback(app, model2, version), about) : press(app, {
      name: `promote:${name}:${number2}`,
      label: "Promote",
      about,
      stale: staleOf(model2),
      run: () => app.api.put(modelPath(name, "/aliases/latest"), { version: number2 }).then(() => `Apps now fetch version ${number2} of ${name}.`)
    }),
    compareLink(model2, number2),
    version.job_id !== null && opener(`trained:${name}:${number2}`, "Trained on …", () => openTrained(app, model2, number2), about),
    downloader(app, modelPath(name, `/versions/${number2}/model.onnx`), `${name}-${number2}.onnx`, { name: `download:${name}:${number2}`, label: "Download", about })
  ];
}
function compareLink({ name, latest_version: latest2 }, number2) {
  const other = latest2 !== null && latest2 !== number2 ? latest2 : number2 - 1;
  if (other < 1) return null;
  const [a, b] = latest2 === number2 ? [other, number2] : [latest2 ?? other, number2];
  return h("a", { class: "button", href: to(["models", name, "compare"], { a, b }), "aria-label": `Compare version ${b} with version ${a}` }, `Compare with ${a}`);
}
function askRollback(app, model2, { version }) {
  confirm(app, {
    title: `Roll back ${model2.name}?`,
    detail: `Apps immediately fetch the version before version ${version}. New versions are not promoted until you release the hold.`,
    no: `Keep version ${version}`,
    yes: "Roll back",
    name: `rollback:${model2.name}`,
    stale: staleOf(model2),
    run: async () => {
      const { latest_version: latest2 } = await app.api.get(modelPath(model2.name));
      if (latest2 !== version) throw new Refused(409, "", `Apps fetch version ${latest2} by now, not version ${version}: nothing was changed`);
      const now = await app.api.post(modelPath(model2.name, "/rollback"));
      return `Apps now fetch version ${now.version} of ${model2.name}.`;
    }
  });
}
function measureView({ name, isShare: isShare2, after, before }, isGood) {
  const show = isShare2 ? percent : decimal;
  return h(
    "div",
    { class: `measure ${isGood ? "good" : "held"}` },
    h("p", {}, h("span", { class: "value" }, show(after)), ` validation ${name}`),
    before !== null && h("p", { class: "quiet" }, change2(show(after), show(before), after > before)),
    isShare2 && bar(after, before)
  );
}
function change2(after, before, isUp) {
  if (after === before) return "unchanged";
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
var JOBS_SHOWN2 = 5;
var TABS = [
  { key: "", name: "Versions", view: versionsTab },
  { key: "samples", name: "Samples", view: samplesTab },
  { key: "try", name: "Try it", view: tryTab },
  { key: "compare", name: "Compare", view: compareTab },
  { key: "settings", name: "Settings", view: settingsTab }
];
function modelPage(app, parts) {
  const [, name = "", key = ""] = parts;
  const known = model(app, name);
  if (known === void 0) return [heading(name), loading()];
  if (app.resources.isRefused(modelPath(name))) return [heading(name)];
  const tab = TABS.find((each2) => each2.key === key);
  if (known === null || tab === void 0) return missing(known === null ? `Model “${name}”` : "Page", to(["models"]), "All models");
  const all = TABS.map((each2) => ({ name: each2.name, href: to(["models", name, ...each2.key ? [each2.key] : []]) }));
  return [head2(app, known), tabs(`Pages of ${name}`, all, tab.name), tab.view(app, known)];
}
function head2(app, known) {
  const { name, parameters, target, latest_version: latest2 } = known;
  const [inputs] = [known.inputs.map(({ name: input, shape }) => `${input} ${shape.join("×") || "1"}`).join(", ")];
  const classes = target.num_classes === null ? "" : `, ${plural(target.num_classes, "class", "classes")}`;
  return h(
    "div",
    { class: "heading", "data-key": "heading" },
    h("h1", { tabindex: -1 }, name),
    h(
      "p",
      { class: "quiet" },
      `${inputs}${classes}, ${count(parameters.trainable)} of ${count(parameters.trainable + parameters.frozen)} parameters trainable` + (latest2 === null ? "" : `, apps fetch version ${latest2}`)
    ),
    opener(`train:${name}`, "Train …", () => openTraining(app, known), name, "primary")
  );
}
function versionsTab(app, known) {
  const list2 = versions(app, known.name);
  const mine = (ended(app, endedPath(known.name)).items ?? []).slice(0, JOBS_SHOWN2);
  const counted2 = stats(app, known.name);
  return h(
    "div",
    { class: "columns wide", "data-key": "columns" },
    list2 ? timeline(app, known, list2) : loading(list2),
    h(
      "div",
      { class: "stack" },
      section("Samples", { id: "counts" }, samplesView(known, counted2 ?? null)),
      list2 ? courseView(app, known, list2) : null,
      list2 ? driftView(app, known, list2) : null,
      list2 ? aliasesView(app, known, list2) : null,
      mine.length > 0 ? section("Recent jobs", { id: "model-jobs" }, jobRows(mine)) : null,
      checkpointsView(app, known)
    )
  );
}
function jobRows(mine) {
  return h("ul", { class: "rows" }, mine.map(outcomeRow));
}
function samplesView({ name, samples }, counted2) {
  if (Object.values(samples).every((each2) => each2 === 0)) return [h("p", { class: "quiet" }, "No samples yet.")];
  const facts4 = [
    fact("train", count(samples.train)),
    fact("validation", count(samples.validation)),
    fact("unlabelled", count(samples.unlabelled)),
    samples.base > 0 && fact("base set", count(samples.base)),
    counted2 !== null && counted2.quarantined > 0 && fact("quarantined", count(counted2.quarantined)),
    counted2 !== null && fact("size", bytes(counted2.size_bytes))
  ];
  return [h("dl", { class: "facts" }, facts4), counted2 === null ? null : classBars(name, counted2)];
}
function classBars(name, { labels }) {
  const byClass = /* @__PURE__ */ new Map();
  for (const { label: label2, name: title, count: number2 } of labels) {
    if (label2 === null) continue;
    const key = title ?? String(label2);
    byClass.set(key, (byClass.get(key) ?? 0) + number2);
  }
  const most = Math.max(1, ...byClass.values());
  if (byClass.size === 0) return null;
  return h(
    "ul",
    { class: "bars", "aria-label": `Labelled samples of ${name} by class` },
    [...byClass].map(
      ([title, number2]) => h(
        "li",
        { "data-key": title },
        h("span", {}, title),
        h("span", { class: "quiet number" }, count(number2)),
        h("meter", { min: 0, max: most, value: number2, "aria-label": `${title}: ${decimal(number2)}` })
      )
    )
  );
}

// src/views/system/about.ts
var SIGNS = { ok: "holds", warn: "warns", fail: "fails" };
var WORDS = { ok: "ok", warn: "warning", fail: "failed" };
function aboutView2(app) {
  const system = read(app);
  if (system === void 0) return section("About", { id: "about" }, loading());
  return section(
    "About",
    { id: "about" },
    pairs(Object.entries({ ...system?.versions, ...system ? { "data folder": system.data_dir } : {} })),
    h("p", {}, h("a", { href: "/docs" }, "API reference"))
  );
}
function findingsView(app) {
  const system = read(app);
  const checks = [...system?.checks ?? []].sort((a, b) => worth(b.status) - worth(a.status));
  return section(
    "Installation",
    { id: "findings" },
    system === void 0 ? loading() : h("ul", { class: "findings" }, checks.map(finding)),
    h("p", { class: "quiet" }, h("code", {}, "honed doctor"), " runs these checks in a terminal, and trains one step.")
  );
}
function backupsView(app) {
  const system = read(app);
  if (!system) return null;
  const [newest] = system.backups;
  if (newest === void 0) return h("p", { class: "quiet" }, "The daemon has not backed up its database yet. It does so daily.");
  const older = system.backups.length - 1;
  return h("p", { class: "quiet" }, `Last backup of the database by the daemon: ${clock(newest.made_at)}, ${bytes(newest.size_bytes)}${older > 0 ? `; ${older} older kept` : ""}.`);
}
function finding({ name, status, detail: detail2, remedy }) {
  return h(
    "li",
    { "data-key": name },
    h("span", { class: `sign ${SIGNS[status]}`, role: "img", "aria-label": WORDS[status] }),
    h("div", {}, h("strong", {}, name), ` ${detail2}`, remedy !== null && h("p", { class: status === "fail" ? "problem" : "quiet" }, remedy))
  );
}
function worth(status) {
  return { ok: 0, warn: 1, fail: 2 }[status];
}
function read(app) {
  return app.resources.read("/v1/system");
}

// src/views/system/audit.ts
var KINDS3 = [["", "everything"], ["change", "changes"], ["export", "exports"], ["refusal", "refusals"], ["samples", "samples"]];
var FIELDS3 = ["kind", "who", "action", "model"];
var COLUMNS2 = ["When", "Who", "What", "Model", "Path", "From"];
var PAGE2 = 100;
function auditView(app) {
  const now = Object.fromEntries(FIELDS3.map((name) => [name, app.route.query.get(name) || null]));
  const path = withQuery("/v1/audit", now);
  const go = (change3) => app.go(to(["system", "audit"], { ...now, ...change3 }), { isSame: true });
  return section(
    "Audit log",
    { id: "audit" },
    filters(
      choice("Entries", now.kind ?? null, KINDS3, (kind) => go({ kind })),
      text("Who", now.who ?? null, "admin, token 3, nobody", (who) => go({ who })),
      text("What", now.action ?? null, "delete_model", (action) => go({ action })),
      text("Model", now.model ?? null, "all", (model2) => go({ model: model2 }))
    ),
    pagesView(app, path, pagesOf(app, path, PAGE2), "No matching entries.", (items) => table("Table of the audit log", COLUMNS2, items.map(row), "audit"))
  );
}
function row({ id, at, who, address, action, path, model: model2, code, count: times }) {
  return h(
    "tr",
    { "data-key": `entry-${id}` },
    h("td", { class: "quiet" }, h("time", { datetime: at, title: moment(new Date(at)) }, clock(at))),
    h("td", {}, who),
    h("th", { scope: "row" }, action.replaceAll("_", " "), code !== null && h("span", { class: "problem" }, ` ${code}`), times > 1 && ` × ${count(times)}`),
    h("td", {}, model2 === null ? "–" : h("a", { href: to(["models", model2]) }, model2)),
    h("td", { class: "quiet" }, h("code", {}, path)),
    h("td", { class: "quiet" }, address)
  );
}

// src/views/system/events.ts
var FAMILIES = [
  ["job.", "jobs"],
  ["version.", "versions"],
  ["samples.", "samples"],
  ["model.", "models"],
  ["base", "bases and base sets"],
  ["follow.", "vendors’ sources"],
  ["checkpoint.", "checkpoints"],
  ["alias.", "aliases"],
  ["device.", "the device"],
  ["policy.", "the policy"],
  ["trigger.", "triggers"],
  ["variant.", "variants"],
  ["prediction.", "predictions"],
  ["storage.", "stored data"]
];
var PAGE3 = 100;
var BAD = /failed|damaged|lost|drifted|quarantined|refused/;
function eventsView(app) {
  const { query } = app.route;
  const [type, model2] = [query.get("type"), query.get("model")];
  const path = withQuery("/v1/events/history", { type: type || null, model: model2 || null });
  const go = (change3) => app.go(to(["system", "events"], { type, model: model2, ...change3 }), { isSame: true });
  return section(
    "Events",
    { id: "events" },
    filters(
      choice("Events of", type, [["", "everything"], ...FAMILIES], (value) => go({ type: value })),
      modelChoice(app, model2, (value) => go({ model: value }))
    ),
    pagesView(app, path, pagesOf(app, path, PAGE3), "No matching events.", (items) => h("ol", { class: "happenings" }, items.map(eventRow)))
  );
}
function eventRow({ id, type, model: model2, created_at: at, data }) {
  return h(
    "li",
    { "data-key": `event-${id}` },
    h("time", { datetime: at, class: "quiet", title: moment(new Date(at)) }, clock(at)),
    h("strong", { class: BAD.test(type) ? "problem" : null }, type),
    model2 !== null && h("a", { href: to(["models", model2]) }, model2),
    typeof data.job_id === "number" && h("a", { href: to(["jobs", data.job_id]) }, `job ${data.job_id}`),
    h("span", { class: "quiet facts-of" }, told4(data))
  );
}
function told4(data) {
  return Object.entries(data).filter(([name, value]) => name !== "job_id" && value !== null && value !== "").map(([name, value]) => `${name.replaceAll("_", " ")}: ${plain(value)}`).join(" · ");
}
function plain(value) {
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(plain).join("; ");
  if (typeof value !== "object" || value === null) return String(value);
  const { detail: detail2 } = value;
  return typeof detail2 === "string" ? detail2 : JSON.stringify(value);
}

// src/views/system/tokens.ts
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
var TOKENS2 = ["/v1/tokens"];
var LIMITS = "limits/";
var SETTINGS4 = [
  { name: "name", title: "Name", kind: "text" },
  { name: "expires_at", title: "Expires", unit: "local time", kind: "time" },
  limit("limits/connections", "Maximum open requests"),
  limit("limits/uploads", "Maximum uploads at once"),
  limit("limits/registrations", "Maximum registrations at once"),
  limit("limits/predictions_per_second", "Maximum predictions per second"),
  limit("limits/bytes_per_day", "Maximum sent per day", "MiB", 2 ** 20)
];
function tokensView(app) {
  const all = app.resources.read("/v1/tokens", (api) => api.all("/v1/tokens"));
  const now = (/* @__PURE__ */ new Date()).toISOString();
  const shown2 = (all ?? []).filter(({ revoked_at: revoked, expires_at: ends }) => revoked === null && (ends === null || ends > now));
  return section(
    "Tokens",
    { id: "tokens" },
    all === void 0 ? loading() : all && tokenTable(app, shown2),
    h("div", { class: "buttons", "data-key": "new" }, opener("new-token", "Create a token …", () => askToken(app)))
  );
}
function tokenTable(app, shown2) {
  if (shown2.length === 0) return h("p", { class: "quiet" }, "No tokens besides the one in admin.token.");
  const columns = ["Name", "Scopes", "Models", "Last used", "Expires", unseen("Actions")];
  return table("Table of tokens", columns, shown2.map((token) => tokenRow(app, token)));
}
function tokenRow(app, token) {
  const { id, name, scopes, models: models2, last_used_at: used, expires_at: ends } = token;
  return h(
    "tr",
    { "data-key": `token-${id}`, "aria-label": name },
    h("th", { scope: "row" }, name),
    h("td", {}, scopes.length === SCOPES.length ? "all" : scopes.join(", ")),
    h("td", {}, models2 === null ? "all" : models2.join(", ")),
    h("td", { class: "quiet" }, used === null ? "never" : when(used)),
    h("td", { class: "quiet" }, ends === null ? "never" : clock(ends)),
    h(
      "td",
      { class: "act" },
      h(
        "div",
        { class: "buttons" },
        opener(`ask-change:${id}`, "Change …", () => openChange(app, token), name),
        opener(`ask-rotate:${id}`, "Rotate …", () => askRotate(app, token), name),
        remover(app, {
          label: "Revoke …",
          about: name,
          title: `Revoke ${name}?`,
          detail: "It stops working immediately and permanently. Apps that use it need another one.",
          yes: "Revoke",
          name: `revoke:${id}`,
          remove: () => app.api.remove(`/v1/tokens/${id}`),
          stale: TOKENS2,
          said: `${name} revoked.`
        })
      )
    )
  );
}
function openChange(app, { id, name, expires_at, limits }) {
  const values = Object.fromEntries(Object.entries(limits).map(([key, value]) => [`${LIMITS}${key}`, value]));
  const send2 = async (changed2) => {
    const limited = Object.entries(changed2).filter(([key]) => key.startsWith(LIMITS));
    const body = { limits: Object.fromEntries(limited.map(([key, value]) => [key.slice(LIMITS.length), value])) };
    if ("name" in changed2) body.name = changed2.name ?? "";
    if ("expires_at" in changed2) body.expires_at = changed2.expires_at;
    await app.api.patch(`/v1/tokens/${id}`, body);
    return `${name} saved.`;
  };
  app.open(
    () => h(
      "div",
      { class: "question", "data-key": "change-token" },
      h("h2", { id: "dialog-title" }, `Change ${name}`),
      settingsForm(app, {
        name: `token:${id}`,
        groups: [{ title: name, settings: SETTINGS4 }],
        values: { name, expires_at, ...values },
        stale: TOKENS2,
        close: () => app.close(),
        send: send2
      })
    )
  );
}
function askRotate(app, { id, name }) {
  let secret = "";
  confirm(app, {
    title: `Rotate ${name}?`,
    detail: "It gets a new secret, and the old one stops working immediately.",
    yes: "Rotate",
    name: `rotate:${id}`,
    stale: TOKENS2,
    run: async () => {
      ({ secret } = await app.api.post(`/v1/tokens/${id}/rotate`));
      await app.api.renew(`/v1/tokens/${id}`, secret);
      return null;
    },
    done: () => app.open(() => secretView(app, secret))
  });
}
function askToken(app) {
  let secret = "";
  const field3 = (title, attributes) => h("label", {}, h("span", {}, title), h("input", { type: "text", autocomplete: "off", ...attributes }));
  confirm(app, {
    title: "Create a token",
    fields: () => [
      h("div", { class: "fields" }, field3("Name", { name: "name" }), field3("Models, comma-separated", { name: "models", placeholder: "all" })),
      h("fieldset", {}, h("legend", {}, "Scopes"), h("div", { class: "fields" }, SCOPES.map((scope) => h("label", { class: "check" }, h("input", { type: "checkbox", name: "scope", value: scope }), scope))))
    ],
    no: "Close",
    yes: "Create",
    kind: "primary",
    name: "make-token",
    stale: TOKENS2,
    run: async (given) => {
      const models2 = String(given.get("models") ?? "").split(",").map((part) => part.trim()).filter(Boolean);
      const body = { name: given.get("name"), scopes: given.getAll("scope"), ...models2.length > 0 ? { models: models2 } : {} };
      ({ secret } = await app.api.post("/v1/tokens", body));
      return null;
    },
    done: () => app.open(() => secretView(app, secret))
  });
}
function secretView(app, secret) {
  return h(
    "div",
    { class: "question", "data-key": "secret" },
    h("h2", { id: "dialog-title" }, "The token’s secret"),
    h("p", {}, "It is shown only once: the daemon stores nothing but its digest."),
    h("p", { class: "secret" }, h("code", {}, secret)),
    h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: () => app.close() }, "Done"))
  );
}

// src/views/system/system.ts
var TABS2 = [
  { key: void 0, name: "Installation", view: installationView },
  { key: "events", name: "Events", view: eventsView },
  { key: "audit", name: "Audit log", view: auditView }
];
function systemPage(app, parts) {
  const tab = TABS2.find(({ key }) => key === parts[1]);
  if (tab === void 0) return missing("Page", to(["system"]), "Installation");
  const all = TABS2.map(({ key, name }) => ({ name, href: to(["system", ...key ? [key] : []]) }));
  return [heading("System"), tabs("Pages of the system", all, tab.name), tab.view(app)];
}
function installationView(app) {
  return [
    h("div", { class: "columns", "data-key": "columns" }, h("div", { class: "stack" }, findingsView(app)), h("div", { class: "stack" }, dataView(app), aboutView2(app))),
    tokensView(app)
  ];
}
function dataView(app) {
  const state = app.resources.read("/v1/verification");
  return section(
    "Stored data",
    { id: "data" },
    restoredView(app),
    backupsView(app),
    state ? h("p", { class: state.damaged || state.error ? "problem" : "quiet", role: "status" }, verified(state)) : loading(state),
    h(
      "div",
      { class: "buttons" },
      press(app, {
        name: "verify",
        label: "Verify all",
        stale: ["/v1/verification"],
        disabled: state?.running === true,
        run: () => app.api.post("/v1/verification").then(() => "Verification started: all stored data is compared with its digests.")
      }),
      downloader(app, "/v1/backup", `honed-${(/* @__PURE__ */ new Date()).toISOString().slice(0, 10)}.zip`, {
        name: "backup",
        label: "Download a backup",
        said: "Backup downloaded. Restore it with honed restore."
      })
    )
  );
}
function verified({ running, read_bytes: read2, total_bytes: total2, error, verified_at: at, damaged }) {
  if (running) return `${bytes(read2)} of ${total2 === null ? "…" : bytes(total2)} read`;
  if (error !== null) return `The last verification failed: ${error}.`;
  if (damaged) {
    const samples = Object.values(damaged.samples).reduce((sum, each2) => sum + each2, 0);
    return `Damaged and quarantined: ${plural(samples, "sample")}, ${plural(Object.keys(damaged.files).length, "file")}.`;
  }
  return at === null ? "Not verified yet." : `No damage found, ${clock(at)}.`;
}
function restoredView(app) {
  const ready = app.resources.read("/readyz");
  const restored = ready?.database_restored;
  return restored ? h("p", { class: "problem" }, `The database was damaged and replaced by its backup of ${clock(restored.backup_from)}.`) : null;
}

// src/views/page.ts
var CONNECTIONS = {
  connecting: "connecting",
  live: "live",
  polling: "live, polling every 2 s",
  lost: "not responding"
};
var PLACES2 = [
  { key: "", name: "Overview", depth: 1, view: overviewPage },
  { key: "models", name: "Models", depth: 3, view: (app, parts) => parts[1] ? modelPage(app, parts) : modelsPage(app) },
  { key: "add", name: "Add a model", depth: 1, view: addPage, isHidden: true },
  { key: "jobs", name: "Jobs", depth: 2, view: (app, parts) => parts[1] ? jobPage(app, Number(parts[1])) : jobsPage(app) },
  { key: "device", name: "Device", depth: 1, view: deviceView },
  { key: "system", name: "System", depth: 2, view: systemPage }
];
function placeOf2({ parts }) {
  return PLACES2.find(({ key, depth }) => key === (parts[0] ?? "") && parts.length <= depth);
}
function titleOf(route) {
  const { parts } = route;
  const place = placeOf2(route);
  return place && parts.length > 1 ? `${parts[1]} · ${place.name} · Hone` : `${place?.name ?? "Not found"} · Hone`;
}
function pageView(app, forget2) {
  const { parts } = app.route;
  const place = placeOf2(app.route);
  compareScript(app);
  const [pinned, main] = [pinnedView(app), place ? place.view(app, parts) : missing("Page", HOME, "Overview")];
  return [
    navigation(app, place, forget2),
    h(
      "div",
      { class: "content", "data-key": "content" },
      noticesView(app),
      pinned,
      h("main", { id: "main", "data-key": parts.join("/") }, main)
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
      PLACES2.filter(({ isHidden }) => isHidden !== true).map(
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
      h("button", { type: "button", class: "plain", onclick: forget2 }, "Sign out")
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
      h("strong", {}, "The daemon is not responding."),
      ` This page shows the state ${lostSince === null ? "before that" : `at ${clock(lostSince)}`}. Retrying …`
    ),
    app.resources.problems().map((problem) => h("p", { class: "notice bad", "data-key": problem }, problem))
  );
}
function toastsView(app) {
  return h(
    "div",
    { class: "toasts", role: "status", "data-key": "toasts" },
    app.state.toasts.map(
      ({ id, text: text3, link }) => h(
        "p",
        { class: "toast", "data-key": `toast-${id}` },
        link === null ? text3 : h("a", { href: link }, text3),
        h(
          "button",
          { type: "button", class: "plain", "aria-label": "Dismiss this message", onclick: () => app.forgetToast(id) },
          "×"
        )
      )
    )
  );
}

// src/views/token.ts
function tokenView(problem) {
  return h(
    "main",
    { class: "gate" },
    h("h1", {}, "Hone"),
    h("p", {}, "Watch and control training on this device. Run ", h("code", {}, "honed dashboard"), " to sign in, or paste a token."),
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
      h("button", { type: "submit", class: "primary" }, "Sign in")
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
var REDRAW_MS = 15e3;
var PRESSED = "button, a, summary, input";
var STAYING = "h1, h2, h3, a[href], summary";
var root = element("page", HTMLElement);
var dialog = element("dialog", HTMLDialogElement);
function askForToken(problem) {
  patch(root, h("div", { id: "page" }, tokenView(problem)));
  const field3 = element("token", HTMLInputElement);
  field3.focus();
  element("token-form", HTMLFormElement).onsubmit = (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN_KEY, field3.value.trim());
    field3.value = "";
    void open();
  };
}
function codeOf(hash) {
  return new URLSearchParams(hash.slice(1)).get("code");
}
async function redeem() {
  const code = codeOf(location.hash);
  if (code === null) return;
  history.replaceState(null, "", location.pathname + location.search);
  const { secret } = await new Api(null).post("/v1/sign-in", { code });
  sessionStorage.setItem(TOKEN_KEY, secret);
}
async function begin() {
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
async function open(problem = null) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  if (token === null) {
    askForToken(problem);
    return;
  }
  const session = new Session(token);
  try {
    await session.run(problem);
  } catch (error) {
    session.close();
    if (!(error instanceof Refused)) throw error;
    sessionStorage.removeItem(TOKEN_KEY);
    const lost = session.unsaved > 0 ? ` Not stored: ${plural(session.unsaved, "label")}.` : "";
    askForToken(`The daemon rejected this token: ${error.message}.${lost}`);
  }
}
var Session = class {
  #ended = new AbortController();
  #app;
  #isDue = false;
  #isPressed = false;
  #shown = "";
  #scrolling = new Scrolling(this.#ended.signal);
  /** The control that had the focus last, and what it is in; then the same of the one that opened its dialog. */
  #left = [];
  /** Whether it was disabled or removed, and not the user who left it. */
  #isLost = false;
  constructor(token) {
    this.#app = new App(new Api(token), () => this.#draw());
  }
  /** How many labels would be lost with it. */
  get unsaved() {
    return countUnsaved(this.#app);
  }
  async run(problem) {
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
    this.#drawNow();
    return await new Live(this.#app).run();
  }
  close() {
    this.#ended.abort();
    this.#showDialog(null);
  }
  /** At most once for each frame of the screen, and not while a control is pressed. */
  #draw() {
    if (this.#isDue) return;
    this.#isDue = true;
    this.#drawSoon();
  }
  #drawSoon() {
    requestAnimationFrame(() => {
      if (this.#isPressed || !this.#isDue) return;
      this.#isDue = false;
      if (!this.#ended.signal.aborted) this.#drawNow();
    });
  }
  #press({ button, target }) {
    this.#isPressed = button === 0 && target instanceof Element && target.closest(PRESSED) !== null;
  }
  #release() {
    this.#isPressed = false;
    if (this.#isDue) this.#drawSoon();
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
  #noteFocus(focused) {
    const within2 = pathTo(focused);
    if (root.contains(focused)) this.#left = within2;
    else if (within2.length > 0) this.#left = [...within2, ...this.#left.filter((each2) => root.contains(each2))];
  }
  /** A browser takes the focus from a control that is disabled or removed, and gives it to none. */
  #giveFocusBack(focused) {
    const now = document.activeElement;
    if (now !== document.body && now?.matches(":disabled") !== true) this.#isLost = false;
    else if (focused !== document.body) this.#isLost = true;
    const [control2, ...around] = this.#left;
    const isBack = control2?.isConnected === true && !control2.matches(":disabled");
    if (!this.#isLost || this.#app.state.pending.size > 0 && !isBack) return;
    this.#isLost = false;
    const near = around.filter((each2) => each2.isConnected).map((each2) => each2.matches("button:enabled") ? each2 : each2.querySelector(STAYING));
    const next = isBack ? control2 : near.find((each2) => each2 !== null) ?? root.querySelector("main h1");
    if (next instanceof HTMLHeadingElement) next.tabIndex = -1;
    next?.focus({ preventScroll: true });
  }
  #showDialog(asked) {
    if (asked === null) {
      dialog.close();
      dialog.replaceChildren();
      return;
    }
    patch(dialog, h("dialog", { id: "dialog", "aria-labelledby": "dialog-title" }, asked));
    paint(dialog);
    if (!dialog.open) dialog.showModal();
  }
  /** After a change of page its heading takes the focus, and readers say it. On the way back and after a reload it is scrolled as it was. */
  #arrive() {
    const path = this.#app.route.parts.join("/");
    if (path === this.#shown) return;
    const isFirst = this.#shown === "";
    this.#shown = path || " ";
    this.#scrolling.begin();
    if (isFirst) return;
    window.scrollTo(0, leftOf().scrolled ?? 0);
    root.querySelector("main h1")?.focus({ preventScroll: true });
  }
  #leave(event) {
    leave(this.#app.state);
    if (this.unsaved > 0) event.preventDefault();
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
function pathTo(element2) {
  return element2 === null || [root, document.body].includes(element2) ? [] : [element2, ...pathTo(element2.parentElement)];
}
void begin();
