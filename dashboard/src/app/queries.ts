/** What views read from the API. */

import { type Api, modelPath, Refused, TIMEOUT_MS, withQuery } from "../daemon/api";
import type { App } from "./app";
import type { Answer, Comparison, Device, DeviceHistory, Drift, Fault, Job, JobLog, JobState, Model, Page, Point, Policy, PolicyCheck, Sample, SampleStats, Told, Trigger, Version } from "../daemon/types";

const SCRIPT = "/dashboard/dashboard.js";
const CURVE_PAGE = 500;
const HISTORY_MS = 55_000;
const DRIFTS_READ = 100;
export const VERSIONS_SHOWN = 50;
const ENDED: readonly JobState[] = ["succeeded", "failed", "cancelled"];
export const JOBS_READ = 50;
/** The addresses of the jobs that have not ended. */
export const RUNNING = `/v1/jobs?${inStates(["running"])}`;
export const WAITING = `/v1/jobs?${inStates(["queued", "paused"])}`;

/** The first pages of a list. */
export interface Pages<T> {
  /** undefined until the first page is loaded, null if the daemon refuses to tell. */
  items: T[] | null | undefined;
  isWhole: boolean;
}

/** Tells whether the daemon was upgraded under the page: its script is read anew whenever the daemon answers again. */
export function compareScript(app: App): void {
  app.resources.read(SCRIPT, async (api, before) => {
    const script = await (await api.bytes(SCRIPT, AbortSignal.timeout(TIMEOUT_MS))).text();
    if (before !== undefined && before !== script) throw new Refused(409, "upgraded", "The daemon was upgraded. Reload this page.");
    return script;
  });
}

export function device(app: App): Device | null | undefined {
  return app.resources.read<Device>("/v1/device");
}

/** Reloaded if it is older than a minute. */
export function deviceHistory(app: App): DeviceHistory | null | undefined {
  type Kept = { at: number; body: DeviceHistory };
  const load = async (api: Api, before: unknown): Promise<Kept> => {
    const kept = before as Kept | null | undefined;
    if (kept && performance.now() - kept.at < HISTORY_MS) return kept;
    return { at: performance.now(), body: await api.get<DeviceHistory>("/v1/device/history") };
  };
  const kept = app.resources.read<Kept>("/v1/device/history", load);
  return kept && kept.body;
}

export interface Forecast {
  check: PolicyCheck | null;
  /** What is wrong with the changes. */
  faults: readonly Fault[];
}

/** The verdict of the policy with these changes; reloaded as the device changes. */
export function forecast(app: App, changed: Policy): Forecast | null | undefined {
  const load = async (api: Api): Promise<Forecast> => {
    try {
      return { check: await api.post<PolicyCheck>("/v1/policy/check", changed), faults: [] };
    } catch (error) {
      if (error instanceof Refused && error.faults.length > 0) return { check: null, faults: error.faults };
      throw error;
    }
  };
  return app.resources.read<Forecast>(`/v1/device?policy=${JSON.stringify(changed)}`, load);
}

export function policy(app: App): Policy | null | undefined {
  return app.resources.read<Policy>("/v1/policy");
}

export function models(app: App): Model[] | null | undefined {
  return app.resources.read<Model[]>("/v1/models?all", (api) => api.all<Model>("/v1/models"));
}

/** The addresses that a change of a model makes stale. */
export function staleOf({ name }: Pick<Model, "name">): string[] {
  return ["/v1/models?", modelPath(name)];
}

export function model(app: App, name: string): Model | null | undefined {
  return app.resources.read<Model>(modelPath(name));
}

/** The newest ones, newest first. */
export function versions(app: App, name: string): Version[] | null | undefined {
  const path = withQuery(modelPath(name, "/versions"), { limit: VERSIONS_SHOWN });
  return app.resources.read<Page<Version>>(path)?.items;
}

/** What apps fetch, even if it is older than the versions that are listed. */
export function latest(app: App, { name, latest_version: number }: Model, list: Version[]): Version | null {
  const listed = list.find(({ version }) => version === number);
  if (listed !== undefined || number === null) return listed ?? null;
  return app.resources.read<Version>(modelPath(name, `/versions/${number}`)) ?? null;
}

/** Two versions on today's validation samples. The daemon runs both: that may take a minute. */
export function comparison(app: App, name: string, before: number, after: number): Comparison | null | undefined {
  const path = modelPath(name, `/versions/${before}/comparison/${after}`);
  return app.resources.read<Comparison>(path, (api, _, signal) => api.patient<Comparison>(path, signal));
}

export function sample(app: App, { name }: Model, id: number): Sample | null | undefined {
  return app.resources.read<Sample>(modelPath(name, `/samples/${id}`));
}

/**
 * What `latest`, or another version, makes of a stored sample. Other samples do not make it stale.
 * Asked by number: without one the daemon answers with the version before while it loads the new one,
 * which it goes on doing if that cannot be loaded.
 */
export function prediction(app: App, { name, latest_version: latest }: Model, id: number, version: number | null = null): Answer | null | undefined {
  const key = withQuery(`/v1/predictions/${encodeURIComponent(name)}/${id}`, { latest: version === null ? latest : null, version });
  const load = async (api: Api, _: unknown, signal: AbortSignal): Promise<Answer> => {
    const content = await api.bytes(modelPath(name, `/samples/${id}/content`), signal);
    const path = modelPath(name, "/predict");
    try {
      return await api.upload<Answer>(withQuery(path, { version: version ?? latest }), content, signal);
    } catch (error) {
      const standsIn = version === null && error instanceof Refused && error.code === "model_not_loadable";
      if (!standsIn) throw error;
      return await api.upload<Answer>(path, content, signal);
    }
  };
  return app.resources.read<Answer>(key, load, version !== null);
}

export function triggers(app: App, name: string): Trigger[] | null | undefined {
  const path = modelPath(name, "/triggers");
  return app.resources.read<Trigger[]>(path, (api) => api.all<Trigger>(path));
}

export function stats(app: App, name: string): SampleStats | null | undefined {
  return app.resources.read<SampleStats>(modelPath(name, "/samples/stats"));
}

/** RUNNING or WAITING, the oldest first. */
export function unfinished(app: App, path: string): Job[] | null | undefined {
  return app.resources.read<Job[]>(path, async (api) => (await api.all<Job>(path)).reverse());
}

/** The address of the jobs that have ended, of all models or of one. */
export function endedPath(model: string | null = null): string {
  return withQuery(`/v1/jobs?${inStates(ENDED)}`, { model });
}

/** The first pages of those, the last to finish first. */
export function ended(app: App, path: string): Pages<Job> {
  const { items, isWhole } = pagesOf<Job>(app, path, JOBS_READ);
  return { items: items && [...items].sort((a, b) => ((a.finished_at ?? "") < (b.finished_at ?? "") ? 1 : -1)), isWhole };
}

export function job(app: App, id: number): Job | null | undefined {
  return app.resources.read<Job>(`/v1/jobs/${id}`);
}

export function jobLog(app: App, id: number): JobLog | null | undefined {
  return app.resources.read<JobLog>(`/v1/jobs/${id}/log`);
}

/** The newest drift event of each model whose `latest` has drifted. */
export function drifts(app: App, all: Model[]): Told[] {
  const path = withQuery("/v1/events/history", { type: "model.drifted", limit: DRIFTS_READ });
  // At a separate address: other events, of which there may be many, do not make it stale.
  const told = app.resources.read<Page<Told>>("/v1/drifts", (api) => api.get(path))?.items ?? [];
  return all.flatMap(({ name, latest_version: latest }) => {
    const newest = told.find(({ model }) => model === name);
    return newest && newest.data.version === latest ? [newest] : [];
  });
}

/** Of `latest`. New samples do not make it stale: the daemon starts a process to compare them. */
export function drift(app: App, { name, latest_version: latest }: Model): Drift | null | undefined {
  const key = withQuery(`/v1/drifts/${encodeURIComponent(name)}`, { latest });
  return app.resources.read<Drift>(key, (api, _, signal) => api.patient<Drift>(modelPath(name, "/drift"), signal));
}

export function isOver(job: Job): boolean {
  return ENDED.includes(job.state);
}

/** The points of a job's curves; only the last page of the list is reloaded. */
export function curve(app: App, job: Job): Point[] | undefined {
  const key = `/v1/jobs/${job.id}/metrics`;
  const load = (api: Api, before: unknown): Promise<Curve> => loadCurve(api, job, before as Curve | undefined);
  const read = app.resources.read<Curve>(key, load);
  return read ? [...read.complete, ...read.tail] : undefined;
}

/** tailCursor: of the list's last page, which is reloaded because it grows. */
interface Curve {
  /** Of the job when it was read: a restart rewrites points. */
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

/** The first pages of a list, as many as were requested. */
export function pagesOf<T>(app: App, path: string, size: number): Pages<T> {
  const { pages } = shownOf(app, path);
  const load = async (api: Api): Promise<Page<T>> => {
    const items: T[] = [];
    let cursor: string | null = null;
    for (let number = 0; number < shownOf(app, path).pages; number += 1) {
      const page: Page<T> = await api.get(withQuery(path, { limit: size, cursor }));
      items.push(...page.items);
      cursor = page.next;
      if (cursor === null) break;
    }
    return { items, next: cursor };
  };
  const key = withQuery(path, { pages });
  const read = app.resources.read<Page<T>>(key, load);
  if (read === null) return { items: app.resources.isRefused(key) ? null : [], isWhole: true };
  const known = read ?? (pages > 1 ? app.resources.peek<Page<T>>(withQuery(path, { pages: pages - 1 })) : undefined);
  return { items: known?.items, isWhole: known?.next === null };
}

/** How many pages of a list are shown. */
export function shownOf(app: App, path: string): { pages: number } {
  return app.draft(`pages:${path}`, () => ({ pages: 1 }));
}

function inStates(states: readonly JobState[]): string {
  return states.map((state) => `state=${state}`).join("&");
}
