import type { JobBody, JobRequest, ModelBody, PredictionBody, SampleBody, VersionBody } from "./openapi.js";

export type * from "./openapi.js";

type Params = Record<string, string | number | boolean | undefined>;
/** Inputs by name, or the only input: nested arrays or typed arrays, without a batch axis. */
export type Inputs = unknown;
export type Prediction = PredictionBody & { version: number; id?: number };

export class HonedError extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly errors: Array<{ pointer: string; detail: string }>;
}

export class Client {
  constructor(options?: { url?: string; token?: string; fetch?: typeof fetch });
  readonly url: string;
  readonly token?: string;
  model(name: string): Model;
  request(
    method: string,
    path: string,
    options?: { json?: unknown; params?: Params; headers?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Response>;
  get<Answer = unknown>(path: string, params?: Params): Promise<Answer>;
}

export class Model {
  readonly client: Client;
  readonly name: string;
  describe(): Promise<ModelBody>;
  predict(x: Inputs, options?: { keep?: boolean }): Promise<Prediction>;
  add(x: Inputs, label?: unknown, options?: { key?: string }): Promise<number | null>;
  label(sample: number, label: unknown): Promise<SampleBody>;
  train(options?: Partial<JobRequest> & { wait?: boolean }): Promise<JobBody>;
  latest(): Promise<VersionBody>;
  newest(options?: {
    known?: string;
    waitS?: number;
    signal?: AbortSignal;
  }): Promise<{ bytes: Uint8Array; sha256: string } | null>;
  watch<Session = any>(make?: (bytes: Uint8Array) => Session | Promise<Session>): Promise<Watch<Session>>;
}

export class Watch<Session = any> {
  readonly session: Session;
  readonly sha256: string;
  readonly trouble: Error | null;
  changed(): Promise<Session>;
  close(): void;
}

export function sessionOf(bytes: Uint8Array): Promise<any>;
