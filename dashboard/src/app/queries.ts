/** What views read of the API. */

import { type Api, modelPath, withQuery } from "../daemon/api";
import type { App } from "./app";
import type { Device, Job, Model, Page, Point, Policy, SampleStats, Version } from "../daemon/types";

const CURVE_PAGE = 500;
export const VERSIONS_SHOWN = 50;
const NEWEST_JOBS = 100;
const ENDED = new Set(["succeeded", "failed", "cancelled"]);

export interface Jobs {
  running: Job[];
  waiting: Job[];
  ended: Job[];
}

export function device(app: App): Device | null | undefined {
  return app.resources.read<Device>("/v1/device");
}

export function policy(app: App): Policy | null | undefined {
  return app.resources.read<Policy>("/v1/policy");
}

export function models(app: App): Model[] | null | undefined {
  return app.resources.read<Model[]>("/v1/models?all", (api) => api.all<Model>("/v1/models"));
}

export function model(app: App, name: string): Model | null | undefined {
  return app.resources.read<Model>(modelPath(name));
}

/** The newest ones, newest first. */
export function versions(app: App, name: string): Version[] | null | undefined {
  const path = withQuery(modelPath(name, "/versions"), { limit: VERSIONS_SHOWN });
  return app.resources.read<Page<Version>>(path)?.items;
}

export function stats(app: App, name: string): SampleStats | null | undefined {
  return app.resources.read<SampleStats>(modelPath(name, "/samples/stats"));
}

/** Newest first among those that ended. */
export function jobs(app: App): Jobs | undefined {
  const lists = (["running", "queued", "paused"] as const).map((state) =>
    app.resources.read<Job[]>(`/v1/jobs?state=${state}`, (api) => api.all<Job>(`/v1/jobs?state=${state}`)),
  );
  const newest = app.resources.read<Page<Job>>(`/v1/jobs?limit=${NEWEST_JOBS}`);
  if (lists.includes(undefined) || newest === undefined) return undefined;
  const [running, queued, paused] = lists.map((list) => list ?? []);
  return {
    running: running ?? [],
    waiting: distinct([...(queued ?? []), ...(paused ?? [])]).sort((a, b) => a.id - b.id),
    ended: (newest?.items ?? [])
      .filter((job) => ENDED.has(job.state))
      .sort((a, b) => (b.finished_at ?? "").localeCompare(a.finished_at ?? "")),
  };
}

export function job(app: App, id: number): Job | null | undefined {
  return app.resources.read<Job>(`/v1/jobs/${id}`);
}

export function isOver(job: Job): boolean {
  return ENDED.has(job.state);
}

/** The points of a job's curves; only the end of the list is asked for again. */
export function curve(app: App, job: Job): Point[] | undefined {
  const key = `/v1/jobs/${job.id}/metrics`;
  const load = (api: Api, before: unknown): Promise<Curve> => loadCurve(api, job, before as Curve | undefined);
  const read = app.resources.read<Curve>(key, load);
  return read ? [...read.complete, ...read.tail] : undefined;
}

/** tailCursor: of the list's last page, which is asked for again since it grows. */
interface Curve {
  /** Of the job when it was read: a restart writes points anew. */
  restarts: number;
  complete: Point[];
  tail: Point[];
  tailCursor: string | null;
}

async function loadCurve(api: Api, job: Job, before: Curve | undefined): Promise<Curve> {
  const known = before?.restarts === job.restarts ? before : null;
  const complete = [...(known?.complete ?? [])];
  let cursor = known?.tailCursor ?? null;
  for (;;) {
    const path = withQuery(`/v1/jobs/${job.id}/metrics`, { limit: CURVE_PAGE, cursor });
    const page = await api.get<Page<Point>>(path);
    if (page.next === null) return { restarts: job.restarts, complete, tail: page.items, tailCursor: cursor };
    complete.push(...page.items);
    cursor = page.next;
  }
}

/** A job that changed state between two lists stands in both. */
function distinct(jobs: Job[]): Job[] {
  return [...new Map(jobs.map((job) => [job.id, job])).values()];
}
