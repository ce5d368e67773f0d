/** A cache of API answers by address: views read it, events make it stale. */

import { type Api, Refused } from "./api";

/**
 * before: what was loaded last. signal: aborted when nobody wants it any more. Rejects with Refused
 * or Unreachable.
 */
export type Load = (api: Api, before: unknown, signal: AbortSignal) => Promise<unknown>;

interface Entry {
  load: Load;
  /** undefined until it is loaded, null if the daemon does not have it. */
  value: unknown;
  problem: Refused | null;
  isStale: boolean;
  /** Whether the current page needs it. */
  isWanted: boolean;
  /** Never changes, such as a picture: many may be requested, but few at once. */
  isFixed: boolean;
  abort: AbortController | null;
  loading: Promise<void> | null;
  loadedAt: number;
}

/** Samples may arrive a hundred times a second; the page reloads twice. */
const SHORTEST_MS = 500;
const MOST_KEPT = 600;
/** A browser has six connections to a daemon, of which the events hold one. */
const FIXED_AT_ONCE = 3;

export class Resources {
  readonly #entries = new Map<string, Entry>();
  #fail: ((error: unknown) => void) | null = null;
  #hasFailed = false;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly api: Api,
    private readonly onLoaded: () => void,
  ) {}

  /** What was loaded of an address; it is loaded if need be, and drawn then. */
  read<T>(key: string, load: Load = (api) => api.get(key), isFixed = false): T | null | undefined {
    const entry = this.#entries.get(key) ?? this.#begin(key, load, isFixed);
    entry.isWanted = true;
    entry.load = load;
    return entry.value as T | null | undefined;
  }

  /** What the bytes of an address are read as, which never change. key: where another reading has its own. */
  readBytes<T>(path: string, read: (file: Blob) => Promise<T>, key = path): T | null | undefined {
    return this.read<T>(key, async (api, _, signal) => await read(await api.bytes(path, signal)), true);
  }

  /** What has gone wrong with what the page needs. */
  problems(): string[] {
    const wrong = [...this.#entries.values()].flatMap(({ isWanted, problem }) => (isWanted && problem ? [problem] : []));
    return [...new Set(wrong.flatMap(({ message, faults }) => (faults.length > 0 ? faults.map(({ pointer, detail }) => `${pointer}: ${detail}`) : [message])))];
  }

  /** Whether the daemon has refused to tell it, rather than having none. */
  isRefused(key: string): boolean {
    const { problem, value } = this.#entries.get(key) ?? {};
    return problem != null && value == null;
  }

  /** What is known, without asking. */
  peek<T>(key: string): T | undefined {
    return this.#entries.get(key)?.value as T | undefined;
  }

  /** Changes what is known without asking. */
  update<T>(key: string, change: (value: T) => void): boolean {
    const value = this.#entries.get(key)?.value;
    if (value === undefined || value === null) return false;
    change(value as T);
    return true;
  }

  /** Before the views read. */
  beginDraw(): void {
    for (const entry of this.#entries.values()) entry.isWanted = false;
  }

  /** After the views have read: load what they miss, forget what nobody has shown for long. */
  endDraw(): void {
    for (const [key, entry] of this.#entries) {
      if (entry.isWanted) continue;
      if (entry.value === undefined) entry.abort?.abort();
      entry.isStale ||= !entry.isFixed;
      if (this.#entries.size > MOST_KEPT) this.#entries.delete(key);
    }
    this.#kick();
  }

  /** The addresses at or below these were changed. */
  mark(places: readonly string[]): void {
    for (const [key, entry] of this.#entries) {
      // What a token may read does not change.
      if (entry.problem?.status === 403) continue;
      entry.isStale ||= !entry.isFixed && places.some((place) => isBelow(key, place));
    }
    this.#kick();
  }

  /** The same, and resolves when what the page shows of them is loaded anew. */
  async refresh(places: readonly string[]): Promise<void> {
    const shown = [...this.#entries].filter(
      ([key, entry]) => entry.isWanted && places.some((place) => isBelow(key, place)),
    );
    this.mark(places);
    await Promise.all(shown.map(async ([, entry]) => {
      await entry.loading;
      if (entry.isStale) await this.#load(entry);
    }));
  }

  /** What failed for a reason that may pass is loaded again. */
  retry(): void {
    for (const entry of this.#entries.values()) entry.isStale ||= isPassing(entry.problem);
    this.#kick();
  }

  /** What is known of the addresses at or below this one, even if it was never to change. */
  forget(place: string): void {
    for (const key of this.#entries.keys()) if (isBelow(key, place)) this.#entries.delete(key);
  }

  /** Load from now on, beginning with all that the page needs. Resolves with whether that is there. */
  async open(fail: (error: unknown) => void): Promise<boolean> {
    this.#fail = fail;
    this.#hasFailed = false;
    for (const entry of this.#entries.values()) entry.isStale ||= !entry.isFixed;
    const wanted = [...this.#entries.values()].filter((entry) => entry.isWanted && !entry.isFixed);
    await Promise.all(wanted.map((entry) => this.#load(entry)));
    return !this.#hasFailed;
  }

  close(): void {
    this.#fail = null;
    clearTimeout(this.#timer);
  }

  #begin(key: string, load: Load, isFixed: boolean): Entry {
    const entry: Entry = {
      load,
      value: undefined,
      problem: null,
      isStale: true,
      isWanted: true,
      isFixed,
      abort: null,
      loading: null,
      loadedAt: -Infinity,
    };
    this.#entries.set(key, entry);
    return entry;
  }

  #kick(): void {
    clearTimeout(this.#timer);
    if (this.#fail === null) return;
    const now = performance.now();
    let next = Infinity;
    let fixed = [...this.#entries.values()].filter((entry) => entry.isFixed && entry.loading).length;
    for (const entry of this.#entries.values()) {
      if (!entry.isWanted || !entry.isStale || entry.loading !== null) continue;
      const due = entry.loadedAt + SHORTEST_MS;
      if (entry.isFixed && (fixed += 1) > FIXED_AT_ONCE) continue;
      if (due <= now) void this.#load(entry);
      else next = Math.min(next, due);
    }
    if (next < Infinity) this.#timer = setTimeout(() => this.#kick(), next - now);
  }

  async #load(entry: Entry): Promise<void> {
    entry.loading ??= this.#loaded(entry).finally(() => {
      entry.loading = null;
      this.#kick();
    });
    await entry.loading;
  }

  async #loaded(entry: Entry): Promise<void> {
    entry.isStale = false;
    const { signal } = (entry.abort = new AbortController());
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
      entry.value = isPassing(error) ? (entry.value ?? null) : null;
    }
    entry.loadedAt = performance.now();
    this.onLoaded();
  }
}

/** The daemon has failed or is busy. */
function isPassing(problem: Refused | null): boolean {
  return problem !== null && (problem.status >= 500 || problem.status === 429);
}

/** Whether an address is this place or below it; a place that ends with `?` is the address alone, with any query. */
export function isBelow(key: string, place: string): boolean {
  return `${key}?` === place || key.startsWith(place) && (/[/?]$/.test(place) || /^([/?]|$)/.test(key.slice(place.length)));
}
