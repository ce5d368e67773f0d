/** The job that trains now, or was looked at: progress, numbers, loss curve. */

import { type Child, h } from "../dom";
import { count, decimal, duration, percent, plural } from "../format";
import { shownJob, type State } from "../state";
import type { Job, Point } from "../types";
import { curveView } from "./curve";
import { badge, blockers, fact, jobButtons, when } from "./parts";

const GOES_ON = new Set(["running", "paused", "queued"]);

/** width: of the curve, in pixels. */
export function jobView(state: State, width: number): HTMLElement {
  const job = shownJob(state);
  const heading = job === null || job.state !== "running" ? "Nothing is training" : "Training now";
  if (job === null) {
    return card(heading, h("p", { class: "quiet" }, "A job shows here with its loss curve."));
  }
  const isOther = state.running.length > 0 && job.state !== "running";
  const points = pointsOf(state, job);
  return card(
    isOther ? "An earlier job" : heading,
    h(
      "div",
      { class: "job-head" },
      h("p", { class: "job-title" }, h("strong", {}, job.model), ` job ${job.id}`),
      badge(job.state),
      h("p", { class: "quiet" }, beginning(job)),
      GOES_ON.has(job.state) && h("div", { class: "buttons" }, jobButtons(state, job)),
    ),
    GOES_ON.has(job.state) && progressView(job),
    job.blocked_by.length > 0 && h("ul", { class: "blockers" }, blockers(job.blocked_by)),
    job.error !== null && h("p", { class: "problem" }, job.error.detail),
    h("dl", { class: "facts" }, facts(job, points)),
    curveView(job, points, width),
  );
}

function card(heading: string, ...children: Child[]): HTMLElement {
  return h(
    "section",
    { class: "card now", "aria-labelledby": "now" },
    h("h2", { id: "now" }, heading),
    children,
  );
}

function pointsOf(state: State, job: Job): Point[] {
  const curve = state.curves.get(job.id);
  return curve === undefined ? [] : [...curve.complete, ...curve.tail];
}

function beginning(job: Job): Child {
  const by = job.trigger === "request" ? "asked for" : `by ${job.trigger},`;
  const parts: Child[] = [`${by} `, when(job.created_at)];
  if (job.ignore_policy) parts.push(", in spite of the policy");
  if (job.finished_at !== null) parts.push(", ended ", when(job.finished_at));
  return parts;
}

function progressView(job: Job): HTMLElement {
  const { step, total_steps: total, epoch, epochs, eta_seconds: eta } = job.progress;
  const steps = total === null ? plural(step, "step") : `step ${count(step)} of ${count(total)}`;
  const turn = epochs === null ? `epoch ${count(epoch)}` : `epoch ${count(epoch)} of ${count(epochs)}`;
  return h(
    "div",
    { class: "progress" },
    h("progress", { max: total ?? 1, value: barValue(job), "aria-label": `Progress of job ${job.id}` }),
    h("p", {}, step > 0 || total !== null ? `${steps}, ${turn}` : "no step yet"),
    h("p", {}, eta !== null && job.state === "running" ? `about ${duration(eta)} left` : null),
  );
}

/** Without a value the bar says only that something happens: when time ends a job. */
function barValue(job: Job): number | null {
  const { step, total_steps: total } = job.progress;
  if (total !== null) return step;
  return job.state === "running" ? null : 0;
}

function facts(job: Job, points: Point[]): Child[] {
  const { samples_per_second: speed } = job.progress;
  const train = last(points, "train_loss") ?? job.metrics.train_loss;
  const loss = last(points, "validation_loss");
  const accuracy = last(points, "validation_accuracy");
  return [
    train !== null && fact("training loss", decimal(train)),
    loss !== null && fact("validation loss", decimal(loss)),
    accuracy !== null && fact("validation accuracy", percent(accuracy)),
    speed !== null && speed > 0 && fact("samples a second", count(speed)),
    job.version !== null && fact("made", `version ${job.version}`),
    job.restarts > 0 && fact("restarts", count(job.restarts)),
  ];
}

function last(points: Point[], key: string): number | null {
  for (let index = points.length - 1; index >= 0; index -= 1) {
    const value = points[index]?.values[key];
    if (value !== undefined) return value;
  }
  return null;
}
