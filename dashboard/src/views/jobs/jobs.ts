/** All jobs: running, waiting and ended. */

import type { App } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { duration } from "../../page/format";
import { ended, endedPath, RUNNING, unfinished, WAITING } from "../../app/queries";
import { to } from "../../app/route";
import type { Job } from "../../daemon/types";
import { jobLink, verdictBadge, waitingRow } from "../overview";
import { filters, modelChoice, moreButton } from "../parts/filters";
import { jobButtons } from "./buttons";
import { badge, heading, loading, section, table, when } from "../parts/parts";
import { progressText } from "../pinned";

export function jobsPage(app: App): Child[] {
  const wanted = app.route.query.get("model") || null;
  const path = endedPath(wanted);
  const queues = [RUNNING, WAITING].map((each) => unfinished(app, each));
  const { items: past, isWhole } = ended(app, path);
  const title = heading("Jobs", h("a", { href: to(["system", "events"], { type: "job." }) }, "Job events"));
  if (queues.includes(undefined) || past === undefined) return [title, loading()];
  if (queues.includes(null) || past === null) return [title];
  const [running = [], waiting = []] = queues.map((list) => (list ?? []).filter(({ model }) => wanted === null || model === wanted));
  return [
    title,
    filters(modelChoice(app, wanted, (model) => app.go(to(["jobs"], { model }), { isSame: true }))),
    running.length > 0 ? section("Running", { id: "running" }, h("ul", { class: "rows" }, running.map((job) => runningRow(app, job)))) : null,
    waiting.length > 0 ? section("Waiting", { id: "waiting" }, h("ul", { class: "rows" }, waiting.map((job) => waitingRow(app, job)))) : null,
    past.length > 0 ? section("Finished", { id: "ended" }, endedTable(past), moreButton(app, path, isWhole)) : null,
    [running, waiting, past].every((list) => list.length === 0) ? h("p", { class: "quiet" }, "No jobs.") : null,
  ];
}

function runningRow(app: App, job: Job): HTMLElement {
  return h(
    "li",
    { "data-key": `job-${job.id}` },
    h("div", { class: "row-head" }, jobLink(job), badge(job.state), h("div", { class: "buttons" }, jobButtons(app, job))),
    h("p", { class: "quiet" }, progressText(job)),
  );
}

function endedTable(ended: Job[]): HTMLElement {
  const columns = ["Job", "Model", "Result", "Reason", "Duration", "Finished"];
  return table("Finished jobs", columns, ended.map(endedRow), "ended");
}

function endedRow(job: Job): HTMLElement {
  const { id, model, started_at: started, finished_at: finished, error, metrics } = job;
  const seconds = started && finished ? (Date.parse(finished) - Date.parse(started)) / 1000 : null;
  return h(
    "tr",
    { "data-key": `job-${id}` },
    h("th", { scope: "row" }, h("a", { href: to(["jobs", id]) }, `job ${id}`)),
    h("td", {}, h("a", { href: to(["models", model]) }, model)),
    h("td", {}, verdictBadge(job)),
    h("td", { class: error ? "problem reason" : "quiet reason" }, error?.detail ?? metrics.reason),
    h("td", { class: "number" }, seconds === null ? "–" : duration(seconds)),
    h("td", { class: "quiet" }, finished === null ? null : when(finished)),
  );
}
