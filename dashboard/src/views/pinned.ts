/** The running job, on every page. */

import type { App } from "../app/app";
import { h } from "../page/dom";
import { count, duration } from "../page/format";
import { RUNNING, unfinished } from "../app/queries";
import { to } from "../app/route";
import type { Job } from "../daemon/types";
import { jobButtons } from "./jobs/buttons";

export function pinnedView(app: App): HTMLElement | null {
  const running = unfinished(app, RUNNING) ?? [];
  if (running.length === 0) return null;
  return h(
    "section",
    { class: "pinned", "data-key": "pinned", "aria-label": "Running job" },
    running.map((job) =>
      h(
        "div",
        { class: "pinned-job", "data-key": `pinned-${job.id}` },
        h(
          "p",
          { class: "pinned-name" },
          h("span", { class: "dot", "aria-hidden": "true" }),
          h("a", { href: to(["models", job.model]) }, job.model),
          " ",
          h("a", { class: "quiet", href: to(["jobs", job.id]) }, `job ${job.id}`),
        ),
        progressBar(job),
        h("p", { class: "quiet" }, progressText(job)),
        h("div", { class: "buttons" }, jobButtons(app, job)),
      ),
    ),
  );
}

/** A job limited only by time has no value: the bar shows activity without progress. */
export function progressBar(job: Job): HTMLElement {
  const { step, total_steps: total } = job.progress;
  const value = total !== null ? step : job.state === "running" ? null : 0;
  return h("progress", { max: total ?? 1, value, "aria-label": `Progress of job ${job.id}` });
}

export function progressText(job: Job): string {
  const { step, total_steps: total, epoch, epochs, eta_seconds: eta } = job.progress;
  if (step === 0 && total === null) return "starting";
  const steps = total === null ? `step ${count(step)}` : `step ${count(step)} of ${count(total)}`;
  // The daemon counts those that are over.
  const current = step === total ? Math.max(1, epoch) : epoch + 1;
  const turn = epochs === null ? `epoch ${count(current)}` : `epoch ${count(Math.min(current, epochs))} of ${count(epochs)}`;
  const left = eta !== null && job.state === "running" ? `, about ${duration(eta)} left` : "";
  return `${steps}, ${turn}${left}`;
}
