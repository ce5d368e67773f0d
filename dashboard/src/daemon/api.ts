/** Requests to the daemon that served this page. The token travels in a header, never in a URL. */

import type { Fault, Page } from "./types";

/** Where the tab keeps its token. */
export const TOKEN_KEY = "honed.token";
/** Of an answer that the daemon does not have to work on. */
export const TIMEOUT_MS = 15_000;

/** Nobody answers, or the daemon is starting or stopping: try again later. */
export class Unreachable extends Error {}

/** The daemon refuses; the message is the problem document's detail. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly faults: readonly Fault[] = [],
  ) {
    super(detail);
  }
}

export class Api {
  #token: string | null;

  /** token: null for what needs none. */
  constructor(token: string | null) {
    this.#token = token;
  }

  /** Goes on with a token's new secret if the token is the caller's: then the former secret is refused. */
  async renew(path: string, secret: string): Promise<void> {
    const response = await this.#send(path, {}).catch(() => null);
    if (response?.status !== 401) return;
    this.#token = secret;
    sessionStorage.setItem(TOKEN_KEY, secret);
  }

  async get<T>(path: string): Promise<T> {
    return (await this.#answer("GET", path)) as T;
  }

  /** What the daemon has to compute first, however long that takes. */
  async patient<T>(path: string, signal: AbortSignal): Promise<T> {
    return (await answered(await this.#send(path, { signal }))) as T;
  }

  /** isLong: the daemon may work on it for long. */
  async post<T>(path: string, body?: object, isLong = false): Promise<T> {
    return (await this.#answer("POST", path, body, isLong)) as T;
  }

  /** A form is sent however long that takes. */
  async put<T>(path: string, body?: object): Promise<T> {
    return (await this.#answer("PUT", path, body)) as T;
  }

  async patch<T>(path: string, body: object): Promise<T> {
    return (await this.#answer("PATCH", path, body)) as T;
  }

  /** isLong: as for `post`. */
  async remove<T>(path: string, isLong = false): Promise<T> {
    return (await this.#answer("DELETE", path, undefined, isLong)) as T;
  }

  /** Sends files, however long that takes. */
  async upload<T>(path: string, body: FormData | Blob, signal?: AbortSignal): Promise<T> {
    const request: RequestInit = { method: "POST", body, ...(signal ? { signal } : {}) };
    return (await answered(await this.#send(path, request))) as T;
  }

  /** The bytes of an answer. */
  async bytes(path: string, signal?: AbortSignal): Promise<Blob> {
    const response = await this.#send(path, signal ? { signal } : {}, "default");
    if (!response.ok) throw await refusal(response);
    return await whole(response.blob());
  }

  /** Every item of a list, page by page. */
  async all<T>(path: string): Promise<T[]> {
    const items: T[] = [];
    let cursor: string | null = null;
    do {
      const page: Page<T> = await this.get(withQuery(path, { limit: 1000, cursor }));
      items.push(...page.items);
      cursor = page.next;
    } while (cursor !== null);
    return items;
  }

  /** The body of a stream that lasts, null where the daemon has no such route, or not for this token. */
  async stream(
    path: string,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<ReadableStream<Uint8Array> | null> {
    const response = await this.#send(path, { headers, signal });
    if ([403, 404].includes(response.status)) return null;
    if (!response.ok || response.body === null) throw await refusal(response);
    return response.body;
  }

  async #answer(method: string, path: string, body?: object, isLong = false): Promise<unknown> {
    const isForm = body instanceof FormData;
    const request: RequestInit = { method, signal: isLong || isForm ? null : AbortSignal.timeout(TIMEOUT_MS) };
    if (isForm) {
      request.body = body;
    } else if (body !== undefined) {
      request.body = JSON.stringify(body);
      request.headers = { "Content-Type": "application/json" };
    }
    return await answered(await this.#send(path, request));
  }

  async #send(path: string, request: RequestInit, cache: RequestCache = "no-store"): Promise<Response> {
    const authorization = this.#token === null ? {} : { Authorization: `Bearer ${this.#token}` };
    const headers = { ...request.headers, ...authorization };
    try {
      return await fetch(path, {
        ...request,
        headers,
        cache,
        credentials: "omit",
        redirect: "error",
      });
    } catch (error) {
      if (request.signal?.aborted && request.signal.reason?.name !== "TimeoutError") throw error;
      throw new Unreachable("the daemon did not respond", { cause: error });
    }
  }
}

/** A path with the parameters that are not null. */
export function withQuery(path: string, query: Record<string, string | number | null>): string {
  const given = Object.entries(query).filter(([, value]) => value !== null);
  if (given.length === 0) return path;
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)]));
  return `${path}${path.includes("?") ? "&" : "?"}${text}`;
}

export function modelPath(name: string, rest = ""): string {
  return `/v1/models/${encodeURIComponent(name)}${rest}`;
}

/** The body of an answer, null if it has none. Rejects with Refused or Unreachable. */
async function answered(response: Response): Promise<unknown> {
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? null : await whole(response.json());
}

async function whole<T>(body: Promise<T>): Promise<T> {
  try {
    return await body;
  } catch (error) {
    throw new Unreachable("the response was cut off", { cause: error });
  }
}

async function refusal(response: Response): Promise<Refused | Unreachable> {
  const told: unknown = await response.json().catch(() => null);
  const problem = typeof told === "object" && told !== null ? told : {};
  const code = "code" in problem ? String(problem.code) : "";
  const detail = "detail" in problem ? String(problem.detail) : `HTTP ${response.status}`;
  if (code === "not_ready") return new Unreachable(detail);
  const faults = "errors" in problem && Array.isArray(problem.errors) ? (problem.errors as Fault[]) : [];
  return new Refused(response.status, code, detail, faults);
}
