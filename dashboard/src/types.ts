/** The bodies of /v1, as far as the page reads them. The reference is /docs. */

export interface Page<T> {
  items: T[];
  next: string | null;
}

export interface Blocker {
  condition: string;
  detail: string;
}

export type Metrics = Record<string, unknown>;

export type JobState = "queued" | "running" | "paused" | "succeeded" | "failed" | "cancelled";

export interface Progress {
  step: number;
  total_steps: number | null;
  epoch: number;
  epochs: number | null;
  samples_per_second: number | null;
  eta_seconds: number | null;
}

export interface Job {
  id: number;
  model: string;
  state: JobState;
  blocked_by: Blocker[];
  trigger: string;
  ignore_policy: boolean;
  progress: Progress;
  metrics: { train_loss: number | null; validation: Metrics | null; baseline: Metrics | null };
  version: number | null;
  restarts: number;
  error: { code: string; detail: string } | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
}

export interface Model {
  name: string;
  samples: { train: number; validation: number; unlabelled: number; base: number };
  latest_version: number | null;
  gate: { metric: string };
  /** Since when jobs must not move `latest`. */
  held_since: string | null;
}

export interface Version {
  version: number;
  size_bytes: number;
  created_at: string;
  job_id: number | null;
  metrics: Metrics;
  baseline: Metrics;
  promoted: boolean;
  reason: string;
}

export interface Point {
  step: number;
  epoch: number;
  values: Record<string, number>;
}

export interface Device {
  eligible: boolean;
  blocked_by: Blocker[];
  since: string;
  /** All training, by hand. */
  paused: boolean;
}

/** What an event of /v1/events carries. */
export interface Happening {
  type: string;
  model: string | null;
  data: Record<string, unknown>;
}
