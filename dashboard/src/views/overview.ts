/** Whether the device trains, what waits and why, and the results of the last jobs. */

import type { App } from "../app/app";
import { type Child, h } from "../page/dom";
import { bytes, count, plural } from "../page/format";
import { device, drifts, ended, endedPath, models, policy, stats, unfinished, WAITING } from "../app/queries";
import { to } from "../app/route";
import type { Job, Model } from "../daemon/types";
import { conditionsView, verdictView } from "./device/device";
import { addModelHint, total } from "./models/models";
import { jobButtons } from "./jobs/buttons";
import { badge, blockers, heading, loading, section, when } from "./parts/parts";
import { progressText } from "./pinned";

const JOBS_SHOWN = 8;

export function overviewPage(app: App): Child[] {
  const [now, rules, waiting, all, { items: past }] = [device(app), policy(app), unfinished(app, WAITING), models(app), ended(app, endedPath())];
  if (waiting === undefined || past === undefined || all === undefined) return [heading("Overview"), loading()];
  return [
    heading("Overview"),
    now ? verdictView(app, now) : null,
    driftsView(app, all ?? []),
    h(
      "div",
      { class: "columns", "data-key": "columns" },
      h(
        "div",
        { class: "stack" },
        waiting && waitingView(app, waiting),
        all?.length === 0 ? addModelHint() : past && outcomesView(past),
      ),
      h(
        "div",
        { class: "stack" },
        now && rules ? section("Conditions", { id: "conditions" }, conditionsView(now, rules, { isShort: true })) : null,
        all && storageView(app, all),
      ),
    ),
  ];
}

/** Models whose `latest` has drifted. */
function driftsView(app: App, all: Model[]): HTMLElement[] {
  return drifts(app, all).map(({ model, created_at: at, data }) =>
    h(
      "p",
      { class: "notice held", "data-key": `drift-${model}` },
      h("span", {}, "Recent inputs of ", h("a", { href: to(["models", model ?? ""]) }, model), ` differ from those that version ${String(data.version)} was trained on, first noticed `, when(at), "."),
    ),
  );
}

function waitingView(app: App, waiting: Job[]): HTMLElement {
  const hidden = waiting.length - JOBS_SHOWN;
  return section(
    "Waiting",
    { id: "waiting" },
    waiting.length === 0
      ? h("p", { class: "quiet" }, "No jobs are waiting.")
      : h("ul", { class: "rows" }, waiting.slice(0, JOBS_SHOWN).map((job) => queueRow(app, job))),
    hidden > 0 && h("p", { class: "quiet" }, "and ", h("a", { href: to(["jobs"]) }, plural(hidden, "more job"))),
  );
}

/** A job that runs or waits. */
export function queueRow(app: App, job: Job): HTMLElement {
  const next = job.state === "running" ? progressText(job) : "Next in line.";
  return h(
    "li",
    { "data-key": `job-${job.id}` },
    h("div", { class: "row-head" }, jobLink(job), badge(job.state), h("div", { class: "buttons" }, jobButtons(app, job))),
    job.blocked_by.length > 0 && job.state !== "running" ? blockers(job.blocked_by) : h("p", { class: "quiet" }, next),
  );
}

function jobLink(job: Job): HTMLElement {
  return h("p", {}, h("a", { href: to(["jobs", job.id]) }, h("strong", {}, job.model), ` job ${job.id}`));
}

function outcomesView(past: Job[]): HTMLElement {
  return section(
    "Recent jobs",
    { id: "last-jobs" },
    past.length === 0
      ? h("p", { class: "quiet" }, "No jobs have finished yet.")
      : h("ul", { class: "rows" }, past.slice(0, JOBS_SHOWN).map(outcomeRow)),
  );
}

export function outcomeRow(job: Job): HTMLElement {
  return h(
    "li",
    { "data-key": `job-${job.id}` },
    h(
      "div",
      { class: "row-head" },
      jobLink(job),
      verdictBadge(job),
      h("p", { class: "quiet" }, job.finished_at === null ? null : when(job.finished_at)),
    ),
    h("p", { class: job.error ? "problem short" : "quiet short", title: job.metrics.reason }, job.error?.detail ?? job.metrics.reason),
  );
}

/** Whether a job's version was promoted, else how the job ended. */
export function verdictBadge(job: Job): HTMLElement {
  if (job.version === null || job.metrics.promoted === null) return badge(job.state);
  const made = `version ${job.version}`;
  return job.metrics.promoted ? badge("promoted", `${made} promoted`) : badge("held", `${made} not promoted`);
}

/** Bytes of samples by model, the largest first. */
function storageView(app: App, all: Model[]): HTMLElement {
  const full = all.filter((model) => total(model) > 0);
  const sizes = full
    .map((model) => ({ model, size: stats(app, model.name)?.size_bytes ?? null }))
    .sort((a, b) => (b.size ?? 0) - (a.size ?? 0))
    .slice(0, 6);
  const largest = Math.max(1, ...sizes.map(({ size }) => size ?? 0));
  return section(
    "Samples",
    { id: "storage" },
    sizes.length === 0
      ? h("p", { class: "quiet" }, "No samples yet.")
      : h("ul", { class: "bars" }, sizes.map(({ model, size }) => storageRow(model, size, largest))),
    full.length > sizes.length && h("p", { class: "quiet" }, `and ${plural(full.length - sizes.length, "more model")}`),
  );
}

function storageRow(model: Model, size: number | null, largest: number): HTMLElement {
  const { name, quota: { max_bytes: limit } } = model;
  return h(
    "li",
    { "data-key": name },
    h("a", { href: to(["models", name]) }, name),
    h("span", { class: "quiet number" }, count(total(model)), size !== null && ` · ${bytes(size)}${limit === null ? "" : ` of ${bytes(limit)}`}`),
    size !== null && h("meter", { min: 0, max: limit ?? largest, value: size, "aria-label": `Storage used by ${name}` }),
  );
}
