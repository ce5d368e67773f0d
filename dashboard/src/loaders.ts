/** Brings parts of the state up to date. */

import { type Api, modelPath, Refused, withQuery } from "./api";
import { type KnownModel, shownJob, type State } from "./state";
import type { Device, Job, Model, Page, Point, Version } from "./types";

const ENDED_SHOWN = 12;
const CURVE_PAGE = 250;
const ENDED = new Set(["succeeded", "failed", "cancelled"]);

export async function loadDevice(api: Api, state: State): Promise<void> {
  state.device = await unlessMissing(api.get<Device>("/v1/device"));
}

export async function loadModels(api: Api, state: State): Promise<void> {
  const models = await api.all<Model>("/v1/models");
  const known = await Promise.all(models.map((model) => withNewest(api, model)));
  state.models = new Map(known.map((each) => [each.model.name, each]));
}

/** One model, which may be new or gone. */
export async function loadModel(api: Api, state: State, name: string): Promise<void> {
  const model = await unlessMissing(api.get<Model>(modelPath(name)));
  if (model === null) {
    state.models?.delete(name);
    return;
  }
  const models = new Map(state.models);
  models.set(name, await withNewest(api, model));
  state.models = new Map([...models].sort(([a], [b]) => (a < b ? -1 : 1)));
}

export async function loadJobs(api: Api, state: State): Promise<void> {
  const [running, queued, paused, newest] = await Promise.all([
    api.all<Job>("/v1/jobs?state=running"),
    api.all<Job>("/v1/jobs?state=queued"),
    api.all<Job>("/v1/jobs?state=paused"),
    api.get<Page<Job>>(withQuery("/v1/jobs", { limit: 100 })),
  ]);
  state.running = running;
  state.waiting = distinct([...queued, ...paused]).sort((a, b) => a.id - b.id);
  state.ended = newest.items
    .filter((job) => ENDED.has(job.state))
    .sort((a, b) => (b.finished_at ?? "").localeCompare(a.finished_at ?? ""))
    .slice(0, ENDED_SHOWN);
}

/** The curve of the job that is shown; only its end is asked for again. */
export async function loadCurve(api: Api, state: State): Promise<void> {
  const job = shownJob(state);
  if (job === null) return;
  const kept = state.curves.get(job.id);
  const known = kept?.restarts === job.restarts ? kept : null;
  const complete = [...(known?.complete ?? [])];
  let cursor = known?.tailCursor ?? null;
  for (;;) {
    const path = withQuery(`/v1/jobs/${job.id}/metrics`, { limit: CURVE_PAGE, cursor });
    const page = await unlessMissing(api.get<Page<Point>>(path));
    if (page === null) return;
    if (page.next === null) {
      const { restarts } = job;
      state.curves.set(job.id, { restarts, complete, tail: page.items, tailCursor: cursor });
      return;
    }
    complete.push(...page.items);
    cursor = page.next;
  }
}

async function withNewest(api: Api, model: Model): Promise<KnownModel> {
  const path = withQuery(modelPath(model.name, "/versions"), { limit: 1 });
  const page = await unlessMissing(api.get<Page<Version>>(path));
  return { model, newest: page?.items[0] ?? null };
}

/** A job that changed state between two lists stands in both. */
function distinct(jobs: Job[]): Job[] {
  return [...new Map(jobs.map((job) => [job.id, job])).values()];
}

async function unlessMissing<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof Refused && error.status === 404) return null;
    throw error;
  }
}
