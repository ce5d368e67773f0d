/** Jobs that wait, with the reasons, and jobs that have ended. */

import { type Child, h } from "../dom";
import { shownJob, type State } from "../state";
import type { Job } from "../types";
import { badge, blockers, button, jobButtons, when } from "./parts";

export function waitingView(state: State): HTMLElement | null {
  if (state.waiting.length === 0) return null;
  return list(
    "Waiting",
    state.waiting.map((job) =>
      row(
        state,
        job,
        h("div", { class: "buttons" }, jobButtons(state, job)),
        job.blocked_by.length > 0
          ? h("ul", { class: "blockers" }, blockers(job.blocked_by))
          : h("p", { class: "quiet" }, "Its turn comes next."),
      ),
    ),
  );
}

export function endedView(state: State): HTMLElement | null {
  if (state.ended.length === 0) return null;
  return list(
    "Last jobs",
    state.ended.map((job) =>
      row(
        state,
        job,
        h("p", { class: "quiet" }, job.finished_at === null ? null : when(job.finished_at)),
        outcome(job),
      ),
    ),
  );
}

function list(title: string, rows: HTMLElement[]): HTMLElement {
  const id = title.toLowerCase().replaceAll(" ", "-");
  return h(
    "section",
    { class: "card jobs", "data-key": id, "aria-labelledby": id },
    h("h2", { id }, title),
    h("ul", { class: "rows" }, rows),
  );
}

function row(state: State, job: Job, aside: HTMLElement, below: Child): HTMLElement {
  const isShown = shownJob(state)?.id === job.id;
  const show = button(state, "show", job.id, `${job.model} job ${job.id}`, "with its curve");
  show.classList.add("link");
  return h(
    "li",
    { "data-key": `job-${job.id}`, class: isShown ? "shown" : null },
    h("div", { class: "row-head" }, show, badge(job.state), aside),
    below,
  );
}

function outcome(job: Job): Child {
  if (job.error !== null) return h("p", { class: "problem" }, job.error.detail);
  return job.version === null ? null : h("p", { class: "quiet" }, `made version ${job.version}`);
}
