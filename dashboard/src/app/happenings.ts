/** How events change what the page has loaded. */

import { modelPath } from "../daemon/api";
import { RUNNING } from "./queries";
import type { Resources } from "../daemon/resources";
import type { Happening, Job } from "../daemon/types";

export const EVERYTHING: readonly string[] = ["/v1/"];

/** What these events change at the address of their model (`?`) and below; others may change all of it. */
const CHANGED: Readonly<Record<string, readonly string[]>> = {
  alias: ["/aliases", "/versions?"],
  checkpoint: ["/checkpoints"],
  job: ["/base", "/federation", "/triggers"],
  samples: ["?", "/base-set", "/classes", "/reference", "/samples", "/triggers"],
  trigger: ["/triggers"],
  variant: ["/versions?"],
  version: ["?", "/aliases", "/base", "/checkpoints", "/classes", "/samples?", "/versions?"],
};

/** The addresses whose answers an event has changed. Not comparisons: for each, the daemon runs two versions. */
export function staleAfter(happened: Happening): readonly string[] {
  const [family = ""] = happened.type.split(".");
  if (family === "device" || family === "policy") return ["/v1/device", "/v1/policy", "/v1/jobs"];
  if (family === "storage") return ["/v1/verification", "/readyz"];
  if (happened.type === "events.lost" || happened.model === null) return EVERYTHING;
  const below = (CHANGED[family] ?? [""]).map((place) => modelPath(happened.model ?? "", place));
  if (family === "job") return ["/v1/jobs", "/v1/device", ...below];
  const changed = ["/v1/models?", ...below, ...(family === "model" ? ["/v1/drifts"] : [])];
  return happened.type === "model.deleted" ? [...changed, "/v1/jobs"] : changed;
}

/** Applies the numbers of `job.progress`, which saves a request. Returns whether the job is known. */
export function applyProgress(resources: Resources, data: Happening["data"]): boolean {
  const id = data.job_id;
  let isKnown = false;
  const take = (job: Job): void => {
    if (job.id !== id) return;
    isKnown = true;
    for (const name of Object.keys(job.progress) as (keyof typeof job.progress)[]) {
      const value = data[name];
      if (typeof value === "number" || value === null) Object.assign(job.progress, { [name]: value });
    }
    if (typeof data.train_loss === "number") job.metrics.train_loss = data.train_loss;
  };
  resources.update<Job[]>(RUNNING, (jobs) => jobs.forEach(take));
  resources.update<Job>(`/v1/jobs/${String(id)}`, take);
  return isKnown;
}

export function parse(data: string): Happening | null {
  const told: unknown = JSON.parse(data);
  if (typeof told !== "object" || told === null || !("type" in told)) return null;
  const { type, model, data: fields } = told as Partial<Happening>;
  return { type: String(type), model: model ?? null, data: fields ?? {} };
}
