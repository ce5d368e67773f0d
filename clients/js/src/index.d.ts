import type {
  CompleteRequest,
  GeneratedBody,
  JobBody,
  JobRequest,
  ModelBody,
  ModelSpecBody,
  PolicyBody,
  PredictionBody,
  SampleBody,
  SamplesAccepted,
  SuggestionBody,
  TriggerBody,
  TriggerPatch,
  TriggerRequest,
  VersionBody,
} from "./openapi.js";

export type * from "./openapi.js";

type Param = string | number | boolean | null | undefined;
type Params = Record<string, Param | ReadonlyArray<Param>>;
/** Inputs by name, or the only input: nested arrays or typed arrays, without a batch axis; a text; or a file. */
export type Inputs = unknown;
export type Prediction = PredictionBody & { version: number; id?: number };
/** `output`: names of the model's outputs to add. */
export type PredictOptions = { keep?: boolean; top?: number; output?: string | ReadonlyArray<string> };
/** `key`: the app's own id. */
export type About = { key?: string | null; weight?: number | null; split?: "train" | "validation" | null };
export type CompleteOptions = Omit<Partial<CompleteRequest>, "text" | "suggestions" | "stream">;
export type NewSample = About & { x: Inputs; label?: unknown };
export type Changes = { label?: unknown; weight?: number; split?: "train" | "validation"; pinned?: boolean };
export type Numbers =
  | Float32Array
  | Float64Array
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | Int32Array
  | BigInt64Array;

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
    options?: {
      json?: unknown;
      body?: BodyInit;
      params?: Params;
      headers?: Record<string, string>;
      signal?: AbortSignal;
    },
  ): Promise<Response>;
  events<Event = unknown>(
    method: string,
    path: string,
    options?: { json?: unknown; params?: Params; signal?: AbortSignal },
  ): AsyncGenerator<Event>;
  get<Answer = unknown>(path: string, params?: Params): Promise<Answer>;
  items<Item = unknown>(path: string, params?: Params): AsyncGenerator<Item>;
  models(): AsyncGenerator<ModelBody>;
  jobs(conditions?: { model?: string; state?: string | string[] }): AsyncGenerator<JobBody>;
  register(name: string, bytes: Uint8Array, spec: Omit<ModelSpecBody, "name">): Promise<Model>;
  policy(changes?: Partial<PolicyBody>): Promise<PolicyBody>;
}

export class Model {
  readonly client: Client;
  readonly name: string;
  describe(): Promise<ModelBody>;
  predict(x: Inputs, options?: PredictOptions): Promise<Prediction>;
  predictAll(xs: ReadonlyArray<Inputs>, options?: PredictOptions): Promise<Array<Prediction>>;
  predictArray(
    xs: ReadonlyArray<Inputs>,
    options?: { output?: string },
  ): Promise<{ data: Numbers; shape: Array<number> }>;
  suggest(text: string, count?: number): Promise<Array<SuggestionBody>>;
  complete(text: string, options?: CompleteOptions): Promise<GeneratedBody>;
  stream(text: string, options?: CompleteOptions): AsyncGenerator<GeneratedBody>;
  add(x: Inputs, label?: unknown, about?: About): Promise<number | null>;
  addAll(samples: ReadonlyArray<NewSample>): Promise<SamplesAccepted>;
  label(sample: number | string, label: unknown): Promise<SampleBody>;
  change(sample: number | string, changes: Changes): Promise<SampleBody>;
  samples(conditions?: Params): AsyncGenerator<SampleBody>;
  train(options?: Partial<JobRequest> & { wait?: boolean }): Promise<JobBody>;
  triggers(): AsyncGenerator<TriggerBody>;
  addTrigger(fields: TriggerRequest): Promise<TriggerBody>;
  changeTrigger(trigger: number, fields: TriggerPatch): Promise<TriggerBody>;
  removeTrigger(trigger: number): Promise<void>;
  versions(): AsyncGenerator<VersionBody>;
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
