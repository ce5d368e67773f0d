/** The API's codes in words. */

import { METRICS, metricsOf } from "../daemon/tasks";
import type { Blocker, JobState, Metrics, Model, Version } from "../daemon/types";

/** Conditions of docs/policy.md and of the trainer; the detail next to it has the numbers. */
const CONDITIONS: Record<string, string> = {
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
  window: "Outside the training hours",
};

/** The same if the signal behind a condition cannot be read. */
const UNKNOWN: Record<string, string> = {
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
  window: "The local time is unknown",
};

export function condition(blocker: Blocker): string {
  const isUnknown = /^(\w+ is|the local time is) unknown\b/.test(blocker.detail);
  const known = (isUnknown ? UNKNOWN : CONDITIONS)[blocker.condition] ?? CONDITIONS[blocker.condition];
  if (known !== undefined) return known;
  const words = blocker.condition.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export const STATES: Record<JobState, string> = {
  queued: "waiting",
  running: "training",
  paused: "paused",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
};

export interface Measure {
  name: string;
  /** A fraction, shown in percent and as a bar. */
  isShare: boolean;
  after: number;
  before: number | null;
}

/** Metrics whose words are not those of their names. */
const METRIC_WORDS: Record<string, string> = {
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
  top_5_accuracy: "top-5 accuracy",
};

export function metricWords(name: string): string {
  return METRIC_WORDS[name] ?? name.replaceAll("_", " ");
}

/** Whether a metric is a fraction of 1. */
export function isShare(metric: string): boolean {
  return METRICS[metric]?.higherIsBetter === true;
}

/** What a model's versions are judged by: its gate's metric, then the others of its task. */
export function judgedBy({ gate, loss }: Pick<Model, "gate" | "loss">): string[] {
  return [gate.metric, ...metricsOf(loss).filter((name) => name !== gate.metric)];
}

/** The first of these metrics that a version has on the validation samples, null for none. */
export function measure(metrics: Metrics, baseline: Metrics, names: readonly string[]): Measure | null {
  for (const name of names) {
    const [after, before] = [metrics[name], baseline[name]];
    if (typeof after === "number") {
      return { name: metricWords(name), isShare: isShare(name), after, before: typeof before === "number" ? before : null };
    }
  }
  return null;
}

/** The same of a version in a list: version 1 has only what the next one was compared with. */
export function measureOf(model: Model, list: readonly Version[], { version, metrics, baseline }: Version): Measure | null {
  const next = list.filter(({ verdict }) => verdict.baseline_version === version).at(-1);
  const names = judgedBy(model);
  return measure(metrics, baseline, names) ?? measure(next?.baseline ?? {}, {}, names);
}
