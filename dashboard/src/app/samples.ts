/** Lists of samples, and the user's changes to them. */

import { type Api, modelPath, Refused, Unreachable, withQuery } from "../daemon/api";
import type { App, Said } from "./app";
import { likelyClassesOf } from "./labels";
import { plural } from "../page/format";
import { to } from "./route";
import { taskOf } from "../daemon/tasks";
import type { Deletion, Duplicates, Model, Page, Sample } from "../daemon/types";

/** Which samples are shown: a filter of the API, or one of its rankings. */
export const SHOWN = {
  all: { title: "All", query: {} },
  unlabelled: { title: "Unlabelled", query: { unlabelled: "true" } },
  uncertain: { title: "Most uncertain first", query: { unlabelled: "true", order: "uncertainty" } },
  suspect: { title: "Possibly wrong labels", query: { suspect: "true" } },
  quarantined: { title: "Quarantined", query: { quarantined: "true" } },
  duplicates: { title: "Duplicates", query: {} },
} as const;

export type Show = keyof typeof SHOWN;

const MOST_SAMPLES = 1000;
const LEAST_SAMPLES = 50;
const LABEL_NUMBERS = 200_000;
const AT_ONCE = 4;

export interface Listed {
  items: Sample[];
  next: string | null;
  /** How many were loaded. */
  pages: number;
  /** Whether the next one is under way. */
  isGrowing?: boolean;
}

/** A sample's new label, null for none. before: what undoes it, for labels that lists do not tell as a whole. */
export interface Change {
  id: number;
  label: unknown;
  before?: unknown;
}

/** The user's work on a model's page of samples. */
export interface Work extends Record<string, unknown> {
  /** The sample that has the keyboard focus. */
  active: number | null;
  selected: Set<number>;
  /** The labels before each step. */
  undo: Change[][];
  /** By sample: labels that are not stored yet, or that the daemon did not answer to. */
  unsaved: Map<number, Change>;
  /** Samples that another tab or an app has changed, and that are to be read anew. */
  changed: Set<number>;
  /** Keys are pressed faster than the daemon answers: each change waits for the one before. */
  last: Promise<unknown>;
  pages: number;
}

export function workOf(app: App, name: string): Work {
  const begin = (): Work => ({ active: null, selected: new Set(), undo: [], unsaved: new Map(), changed: new Set(), last: Promise.resolve(), pages: 1 });
  return app.draft<Work>(`samples:${name}`, begin);
}

/** Rankings need probabilities; that of suspect labels needs one class for each sample. */
export function canShow(model: Model, show: string): boolean {
  if (show === "suspect") return likelyClassesOf(model).length > 0;
  return show !== "uncertain" || taskOf(model.loss)?.hasDoubt === true;
}

export function showOf(app: App): Show {
  const asked = app.route.query.get("show") ?? "all";
  return asked in SHOWN ? (asked as Show) : "all";
}

/** The conditions of the page's filter; null for a ranking and for duplicates. */
export function filterOf(app: App): Record<string, string | null> | null {
  const show = showOf(app);
  if (show === "suspect" || show === "uncertain" || show === "duplicates") return null;
  const { query } = app.route;
  return { ...SHOWN[show].query, label: query.get("label"), split: query.get("split"), text: query.get("text") };
}

/** The address of the list for the page's filter. */
export function listPath(app: App, name: string): string {
  const show = showOf(app);
  if (show === "duplicates") return modelPath(name, "/samples/duplicates");
  return withQuery(modelPath(name, "/samples"), filterOf(app) ?? SHOWN[show].query);
}

/** The pages that were scrolled to. */
export function list(app: App, model: Model): Listed | null | undefined {
  const path = listPath(app, model.name);
  const work = workOf(app, model.name);
  return app.resources.read<Listed>(path, async (api) => {
    const listed = await loadList(api, path, work.pages, pageSize(model));
    if (path !== listPath(app, model.name)) return listed; // another filter is shown by now
    const ids = new Set(listed.items.map(({ id }) => id));
    // Keys and buttons are about samples that are shown.
    work.selected = new Set([...work.selected].filter((id) => ids.has(id)));
    if (work.active !== null && !ids.has(work.active)) work.active = null;
    return listed;
  });
}

/** Samples of a page: fewer if their labels are large. */
function pageSize({ target }: Model): number {
  const numbers = target.shape.reduce((product, size) => product * size, 1);
  return Math.max(LEAST_SAMPLES, Math.min(MOST_SAMPLES, Math.floor(LABEL_NUMBERS / Math.max(1, numbers))));
}

/** from: the cursor of the first page. */
async function loadList(api: Api, path: string, pages: number, limit: number, from: string | null = null): Promise<Listed> {
  const items: Sample[] = [];
  let next = from;
  let page = 0;
  while (page < pages) {
    const answer: Page<Sample | Duplicates> = await api.get(withQuery(path, { limit, cursor: next }));
    items.push(...answer.items.flatMap((each) => ("ids" in each ? each.ids.map(unread) : [each])));
    next = answer.next;
    // A search for a text may find none in a page, and more in a later one.
    page += answer.items.length > 0 || next === null ? 1 : 0;
    if (next === null) break;
  }
  return { items, next, pages: page };
}

/** Lists of duplicates have only ids. */
function unread(id: number): Sample {
  const nothing = { key: null, label: undefined, sha256: "", size_bytes: 0, created_at: "", quarantine: null };
  const unranked = { uncertainty: null, doubt: null, predicted: null };
  return { id, split: "train", pinned: false, weight: 1, ...nothing, ...unranked };
}

/** Loads the next page of the list, because its end is near. If that fails, all of it is loaded anew. */
export async function loadMore(app: App, model: Model, listed: Listed): Promise<void> {
  if (listed.next === null || listed.isGrowing === true) return;
  const path = listPath(app, model.name);
  const pages = listed.pages + 1;
  listed.isGrowing = true;
  workOf(app, model.name).pages = pages;
  try {
    const more = await loadList(app.api, path, 1, pageSize(model), listed.next);
    Object.assign(listed, { items: [...listed.items, ...more.items], next: more.next, pages });
    app.draw();
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    app.resources.mark([path]);
  } finally {
    listed.isGrowing = false;
  }
}

/** Deletes samples for good. retrain: retrains without them, then deletes versions that saw them. */
export async function remove(app: App, { name }: Model, ids: number[], retrain: boolean): Promise<Said> {
  const work = workOf(app, name);
  const items = app.resources.peek<Listed>(listPath(app, name))?.items ?? [];
  const at = items.findIndex(({ id }) => id === work.active);
  await each(ids, async (id) => {
    await app.api.remove(withQuery(modelPath(name, `/samples/${id}`), { retrain: retrain ? "true" : null }), true);
    work.selected.delete(id);
  });
  // The next sample, else the one before: keys go on from there.
  const near = at < 0 ? [] : [...items.slice(at), ...items.slice(0, at).reverse()];
  Object.assign(work, { active: near.find(({ id }) => !ids.includes(id))?.id ?? null, undo: [] });
  return ids.length === 1 ? "Sample deleted." : `${ids.length} samples deleted.`;
}

/** Deletes every sample of a filter, also those that are not loaded. */
export async function removeAll(app: App, { name }: Model, filter: Record<string, string | null>, retrain: boolean): Promise<Said> {
  const isEmpty = Object.values(filter).every((value) => value === null);
  const query = { ...filter, all: isEmpty ? "true" : null, retrain: retrain ? "true" : null };
  const { deleted, job } = await app.api.remove<Deletion>(withQuery(modelPath(name, "/samples"), query), true);
  Object.assign(workOf(app, name), { active: null, selected: new Set(), undo: [] });
  const text = `${plural(deleted, "sample")} deleted.`;
  return job === null ? text : { text: `${text} Job ${job.id} retrains without them.`, link: to(["jobs", job.id]) };
}

/** Runs for all, a few at once; rejects once no more run. */
export async function each<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const worker = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await run(item);
  };
  const ended = await Promise.allSettled(Array.from({ length: AT_ONCE }, worker));
  const failed = ended.find((one) => one.status === "rejected");
  if (failed) throw failed.reason;
}

export function filterTo(app: App, name: string, change: Record<string, string | null>): void {
  const now = Object.fromEntries(["show", "label", "split", "text"].map((key) => [key, app.route.query.get(key)]));
  Object.assign(workOf(app, name), { pages: 1, active: null, selected: new Set() });
  app.go(to(["models", name, "samples"], { ...now, ...change }), { isSame: true });
}
