/** Which parts of the state an event makes stale. */

import type { State } from "./state";
import type { Happening } from "./types";

/** `model:NAME` is one model. */
export type Part = "device" | "models" | "jobs" | "curve" | `model:${string}`;

export const ALL: readonly Part[] = ["device", "models", "jobs", "curve"];

export function staleAfter(happened: Happening): readonly Part[] {
  const [family] = happened.type.split(".");
  if (family === "job") return ["jobs", "curve", "device"];
  if (family === "device" || family === "policy") return ["device", "jobs"];
  if (happened.type === "events.lost" || happened.model === null) return ALL;
  if (happened.type === "model.deleted") return ["jobs", "models"];
  if (family === "checkpoint") return [];
  return [`model:${happened.model}`];
}

/** Takes the numbers of `job.progress` over, which spares a request. Whether the job is known. */
export function applyProgress(state: State, data: Happening["data"]): boolean {
  const job = state.running.find((each) => each.id === data.job_id);
  if (job === undefined) return false;
  for (const name of Object.keys(job.progress) as (keyof typeof job.progress)[]) {
    const value = data[name];
    if (typeof value === "number" || value === null) Object.assign(job.progress, { [name]: value });
  }
  if (typeof data.train_loss === "number") job.metrics.train_loss = data.train_loss;
  return true;
}

export function parse(data: string): Happening | null {
  const told: unknown = JSON.parse(data);
  if (typeof told !== "object" || told === null || !("type" in told)) return null;
  const { type, model, data: fields } = told as Partial<Happening>;
  return { type: String(type), model: model ?? null, data: fields ?? {} };
}
