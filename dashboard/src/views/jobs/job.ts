/** One job: progress, figures, curves, what it chose, and why it waits or failed. */

import type { App } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { count, decimal, percent } from "../../page/format";
import { curve, ended, endedPath, isOver, job, model } from "../../app/queries";
import { to } from "../../app/route";
import { latestMean } from "../../page/scale";
import { isShare, judgedBy, metricWords } from "../../page/words";
import type { Job, Point } from "../../daemon/types";
import { chartView, seriesOf } from "./chart";
import { logView } from "./log";
import { choice } from "../parts/filters";
import { jobButtons } from "./buttons";
import { badge, blockers, fact, heading, loading, missing, pairs, section, when } from "../parts/parts";
import { progressBar, progressText } from "../pinned";
import { verdictBadge } from "../overview";

export function jobPage(app: App, id: number): Child[] {
  const known = Number.isInteger(id) && id > 0 ? job(app, id) : null;
  if (known === undefined) return [heading(`Job ${id}`), loading()];
  if (app.resources.isRefused(`/v1/jobs/${id}`)) return [heading(`Job ${id}`)];
  if (known === null) return missing("Job", to(["jobs"]), "All jobs");
  const points = curve(app, known) ?? [];
  const metric = metricOf(app, known, points);
  return [
    head(app, known),
    known.state === "paused" ? progressView(known) : null,
    known.blocked_by.length > 0 ? blockers(known.blocked_by) : null,
    known.error !== null ? h("p", { class: "notice bad", "data-key": "error" }, known.error.detail) : null,
    known.metrics.reason !== null ? h("p", { class: "reason" }, known.metrics.reason) : null,
    known.metrics.warnings.map((warning) => h("p", { class: "notice held", "data-key": warning }, warning)),
    known.state === "failed" ? logView(app, known) : null,
    h("dl", { class: "facts" }, facts(known, points, metric)),
    curvesView(app, known, points, metric),
    h("div", { class: "columns", "data-key": "columns" }, choicesView(known), settingsView(known)),
    known.state === "failed" || known.state === "queued" ? null : logView(app, known),
  ];
}

function head(app: App, known: Job): HTMLElement {
  return h(
    "div",
    { class: "heading", "data-key": "heading" },
    h("h1", { tabindex: -1 }, `Job ${known.id}`),
    h("a", { href: to(["models", known.model]) }, known.model),
    isOver(known) ? verdictBadge(known) : badge(known.state),
    h("p", { class: "quiet" }, beginning(known)),
    // The running job and its buttons are pinned above every page.
    isOver(known) || known.state === "running" ? null : h("div", { class: "buttons" }, jobButtons(app, known)),
  );
}

function beginning(known: Job): Child {
  const by = known.trigger === "request" ? "requested" : `started by ${known.trigger},`;
  const parts: Child[] = [`${by} `, when(known.created_at)];
  if (known.ignore_policy) parts.push(", ignoring the policy");
  if (known.finished_at !== null) parts.push(", finished ", when(known.finished_at));
  if (known.engine !== null) parts.push(`, trained by ${known.engine}`);
  return parts;
}

function progressView(known: Job): HTMLElement {
  return h("div", { class: "progress", "data-key": "progress" }, progressBar(known), h("p", { class: "quiet" }, progressText(known)));
}

/** The metric beside the loss that its model is judged by, null for none. */
function metricOf(app: App, known: Job, points: Point[]): string | null {
  const judged = model(app, known.model);
  const names = judged ? judgedBy(judged).filter((name) => name !== "loss") : [];
  return names.find((name) => last(points, `validation_${name}`) !== null) ?? null;
}

function facts(known: Job, points: Point[], metric: string | null): Child[] {
  const { samples_per_second: speed } = known.progress;
  const train = isOver(known) ? known.metrics.train_loss : latestMean(seriesOf(points, "train_loss"));
  const loss = last(points, "validation_loss");
  const measured = metric === null ? null : last(points, `validation_${metric}`);
  return [
    train !== null && fact(isOver(known) ? "training loss, last epoch" : "training loss, running mean", decimal(train)),
    loss !== null && fact("validation loss", decimal(loss)),
    metric !== null && measured !== null && fact(`validation ${metricWords(metric)}`, isShare(metric) ? percent(measured) : decimal(measured)),
    speed !== null && speed > 0 && fact("samples per second", count(speed)),
    known.version !== null && fact("result", h("a", { href: to(["models", known.model]) }, `version ${known.version}`)),
    known.restarts > 0 && fact("restarts", count(known.restarts)),
  ];
}

function last(points: Point[], key: string): number | null {
  for (let index = points.length - 1; index >= 0; index -= 1) {
    const value = points[index]?.values[key];
    if (value !== undefined) return value;
  }
  return null;
}

/** Loss and metric by step, and those of another job if the address names one. */
function curvesView(app: App, known: Job, points: Point[], metric: string | null): Child {
  const otherId = Number(app.route.query.get("with"));
  const other = otherId > 0 ? job(app, otherId) : null;
  const others = other ? (curve(app, other) ?? []) : [];
  const words = metric === null ? "" : metricWords(metric);
  const overlaid = other ? { name: `job ${other.id}`, points: others } : null;
  return h(
    "div",
    { class: "charts", "data-key": "charts" },
    section(
      "Loss",
      { id: "loss" },
      chartView(app, { id: `loss-${known.id}`, title: "loss", keys: { train: "train_loss", validation: "validation_loss" }, points, overlaid }),
    ),
    metric === null
      ? null
      : section(
          words.charAt(0).toUpperCase() + words.slice(1),
          { id: "metric" },
          chartView(app, { id: `metric-${known.id}`, title: words, keys: { validation: `validation_${metric}` }, points, overlaid, isShare: isShare(metric) }),
        ),
    overlayField(app, known),
  );
}

/** Chooses another job of the model to draw over this one. */
function overlayField(app: App, known: Job): Child {
  const others = (ended(app, endedPath(known.model)).items ?? []).filter(({ id }) => id !== known.id);
  if (others.length === 0) return null;
  const options = others.map(({ id }) => [String(id), `job ${id}`] as const);
  const choose = (id: string): void => app.go(to(["jobs", known.id], { with: id }), { isSame: true });
  return choice("Compare with", app.route.query.get("with"), [["", "no other job"], ...options], choose, "overlay");
}

function choicesView({ choices }: Job): HTMLElement | null {
  const chosen = Object.entries(choices);
  if (chosen.length === 0) return null;
  return section(
    "Chosen automatically",
    { id: "choices" },
    pairs(chosen),
  );
}

function settingsView({ hyperparameters }: Job): HTMLElement {
  const set = Object.entries(hyperparameters).filter(([, value]) => value !== null);
  return section(
    "Hyperparameters",
    { id: "hyperparameters" },
    pairs(set),
  );
}
