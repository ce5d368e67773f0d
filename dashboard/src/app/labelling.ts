/** Gives samples labels, keeps those that the daemon did not answer to, and undoes them. */

import { modelPath, Refused } from "../daemon/api";
import { pause } from "../daemon/waiting";
import type { Model, Sample } from "../daemon/types";
import type { App } from "./app";
import { numbersOf } from "./labels";
import { maskPath } from "./masks";
import { type Change, each, type Listed, listPath, type Work, workOf } from "./samples";

/** Refusals that are not about the label itself: no token, too many requests. */
const LATER = new Set([401, 429]);
/** The labels of others are gathered for this long; if there are more by then, the list is loaded anew. */
const GATHER_MS = 500;
const MOST_READ = 20;

/** Gives samples a label, null for none. Can be undone. before: as of a change. */
export async function label(app: App, model: Model, ids: number[], value: unknown, before?: unknown): Promise<void> {
  const { unsaved } = workOf(app, model.name);
  await store(app, model, ids.map((id) => ({ id, label: added(unsaved.get(id)?.label, value), before })));
}

/** Sends the labels once more that the daemon did not answer to. */
export async function labelAgain(app: App, model: Model): Promise<void> {
  await store(app, model, [...workOf(app, model.name).unsaved.values()]);
}

/** How many labels would be lost with the page. */
export function countUnsaved({ state }: App): number {
  const counts = [...state.drafts.values()].map(({ unsaved }) => (unsaved instanceof Map ? unsaved.size : 0));
  return counts.reduce((sum, each) => sum + each, 0);
}

/** Named numbers add to those that are not stored yet; other labels replace. */
function added(before: unknown, value: unknown): unknown {
  const isPart = numbersOf(before) !== null && numbersOf(value) !== null;
  return isPart ? { ...(before as object), ...(value as object) } : value;
}

async function store(app: App, model: Model, changes: Change[]): Promise<void> {
  const work = workOf(app, model.name);
  const path = listPath(app, model.name);
  for (const change of changes) work.unsaved.set(change.id, change);
  app.draw();
  await inTurn(work, async () => {
    const stored = await relabel(app, model, path, changes);
    if (stored.length > 0) work.undo.push(stored);
  });
}

async function inTurn(work: Work, run: () => Promise<void>): Promise<void> {
  const turn = work.last.then(run, run);
  work.last = turn;
  await turn;
}

export async function undo(app: App, model: Model): Promise<void> {
  const work = workOf(app, model.name);
  const path = listPath(app, model.name);
  await inTurn(work, async () => {
    const step = work.undo.pop() ?? [];
    for (const change of step) work.unsaved.set(change.id, change);
    if (step.length > 0) await relabel(app, model, path, step);
  });
}

/** The addresses of what a label changes besides its list, in which labelled samples stay where they are. */
export function countsOf(name: string): string[] {
  return ["/v1/models?", modelPath(name, "/samples/stats")];
}

/** Another tab or an app has changed a sample: shows how, at its place in the list. */
export async function takeOver(app: App, name: string, id: number): Promise<void> {
  const { unsaved, changed } = workOf(app, name);
  const isShown = app.route.parts.slice(0, 3).join("/") === `models/${name}/samples`;
  if (!isShown || unsaved.has(id) || changed.add(id).size > 1) return;
  await pause(GATHER_MS);
  const path = listPath(app, name);
  const listed = app.resources.peek<Listed>(path)?.items.filter((sample) => changed.has(sample.id)) ?? [];
  changed.clear();
  const load = async (sample: Sample): Promise<void> => {
    const { label: value, split } = await app.api.get<Sample>(modelPath(name, `/samples/${sample.id}`));
    app.resources.forget(maskPath(name, sample.id));
    Object.assign(sample, { label: value, split });
  };
  const isRead = listed.length <= MOST_READ && (await each(listed, load).then(() => true, () => false));
  if (isRead) app.draw();
  else app.resources.mark([path]);
}

/**
 * Changes the list at this path without reloading it, so that labelled samples stay where they are.
 * Returns what undoes the changes that were stored.
 */
async function relabel(app: App, model: Model, path: string, changes: Change[]): Promise<Change[]> {
  const { unsaved } = workOf(app, model.name);
  const known = (id: number): Sample | undefined => app.resources.peek<Listed>(path)?.items.find((sample) => sample.id === id);
  const stored: Change[] = [];
  await app.act(`label:${model.name}`, countsOf(model.name), async () => {
    await each(changes, async (change) => {
      const { id, label: value, before = known(id)?.label ?? null } = change;
      const forget = (): unknown => unsaved.get(id) === change && unsaved.delete(id);
      const changed = await app.api.patch<Sample>(modelPath(model.name, `/samples/${id}`), { label: value }).catch((error: unknown) => {
        if (error instanceof Refused && !LATER.has(error.status) && error.status < 500) forget();
        throw error;
      });
      forget();
      stored.push({ id, label: before });
      app.resources.forget(maskPath(model.name, id));
      Object.assign(known(id) ?? {}, { label: changed.label, split: changed.split });
    });
    return changes.length > 1 ? `${changes.length} samples labelled.` : null;
  });
  return stored;
}
