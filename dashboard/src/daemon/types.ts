/** The bodies of /v1 that the page reads. The reference is /docs. */

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
  hyperparameters: Record<string, unknown>;
  /** Hyperparameters that the job has chosen, with reasons. */
  choices: Record<string, string>;
  progress: Progress;
  metrics: {
    train_loss: number | null;
    validation: Metrics | null;
    baseline: Metrics | null;
    promoted: boolean | null;
    reason: string | null;
    warnings: string[];
  };
  version: number | null;
  engine: string | null;
  restarts: number;
  error: { code: string; detail: string } | null;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
}

export interface Input {
  name: string;
  dtype: string;
  shape: number[];
}

export interface Model {
  name: string;
  created_at: string;
  inputs: Input[];
  target: Input & { num_classes: number | null; classes: string[] | null };
  loss: string | { output: string };
  optimizer: string;
  engine: string;
  output: string;
  parameters: { trainable: number; frozen: number; names: string[] };
  hyperparameters: Record<string, unknown>;
  samples: { train: number; validation: number; unlabelled: number; base: number };
  latest_version: number | null;
  gate: Gate;
  retention: { max_versions: number | null; max_age_days: number | null; max_bytes: number | null };
  /** Since when jobs must not move `latest`. */
  held_since: string | null;
  notes: string[];
  preprocess: (Record<string, unknown> & { kind: string })[];
  quota: { max_samples: number | null; max_bytes: number | null; when_full: string };
}

export interface Gate {
  mode: string;
  metric: string;
  margin: number;
  min_validation_samples: number;
  min_per_class: number;
  base_set: boolean;
  base_margin: number;
}

export interface Version {
  version: number;
  sha256: string;
  size_bytes: number;
  created_at: string;
  job_id: number | null;
  metrics: Metrics;
  baseline: Metrics;
  aliases: string[];
  promoted: boolean;
  reason: string;
  verdict: { baseline_version?: number };
  classes: string[] | null;
  provenance: Record<string, unknown>;
  variants: { variant: string; size_bytes: number | null; method: string; reason: string }[];
}

export interface Trigger {
  id: number;
  name: string;
  cron: string | null;
  time_zone: string | null;
  jitter_seconds: number;
  new_samples: number | null;
  eligible_after: string | null;
  at_most_every_hours: number | null;
  enabled: boolean;
  /** When it will or may fire next; null if it waits for samples, or is switched off. */
  next_at: string | null;
  fired_at: string | null;
  job_id: number | null;
  outcome: string;
}

export interface Point {
  step: number;
  epoch: number;
  values: Record<string, number>;
}

export interface Signal {
  value: unknown;
  unit: string;
  source: string;
  age_seconds: number;
  detail: string;
}

export interface Device {
  eligible: boolean;
  blocked_by: Blocker[];
  since: string;
  /** All training, manually. */
  paused: boolean;
  snoozed_until: string | null;
  trained_today_seconds: number;
  signals: Record<string, Signal>;
}

/** A day in intervals of equal length; null for unknown values. */
export interface DeviceHistory {
  since: string;
  interval_seconds: number;
  eligible: (boolean | null)[];
  trained_seconds: number[];
  signals: Record<string, { unit: string; values: (number | null)[] }>;
}

export interface PolicyCheck {
  eligible: boolean;
  blocked_by: Blocker[];
}

/** Settings by name; docs/policy.md explains each. */
export type Policy = Record<string, unknown>;

export interface SampleStats {
  train: number;
  validation: number;
  unlabelled: number;
  base: number;
  labels: { split: string; label: number | null; name: string | null; count: number }[];
  size_bytes: number;
  quarantined: number;
}

export interface Sample {
  id: number;
  key: string | null;
  split: string;
  /** A class index, a list of numbers, or null. */
  label: unknown;
  size_bytes: number;
  created_at: string;
  pinned: boolean;
  weight: number;
  /** Why training leaves it out. */
  quarantine: string | null;
  uncertainty?: number | null;
  doubt?: number | null;
  predicted?: unknown;
}

/** The result of an upload. */
export interface Accepted {
  accepted: number;
  duplicates: number;
  rejected: number;
  errors: { pointer: string; detail: string }[];
  warnings: string[];
}

/** The last lines of a job's children. */
export interface JobLog {
  lines: { at: string; source: "child" | "daemon"; text: string }[];
}

/** A stored event. */
export interface Told extends Happening {
  id: number;
  created_at: string;
}

/** The data of an event of /v1/events. */
export interface Happening {
  type: string;
  model: string | null;
  data: Record<string, unknown>;
}
