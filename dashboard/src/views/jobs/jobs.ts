/** All jobs: running, waiting and ended. */

import type { App } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { duration } from "../../page/format";
import { ended, endedPath, JOBS_READ, RUNNING, shownOf, unfinished, WAITING } from "../../app/queries";
import { to } from "../../app/route";
import type { Job } from "../../daemon/types";
import { queueRow, verdictBadge } from "../overview";
import { filters, modelChoice, moreButton } from "../parts/filters";
import { heading, loading, section, table, when } from "../parts/parts";

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
    queueView(app, "Running", running),
    queueView(app, "Waiting", waiting),
    past.length > 0 ? section("Finished", { id: "ended" }, endedTable(past), moreButton(app, path, isWhole)) : null,
    [running, waiting, past].every((list) => list.length === 0) ? h("p", { class: "quiet" }, "No jobs.") : null,
  ];
}

/** As many as were asked for: each draw compares every row. */
function queueView(app: App, title: string, queue: Job[]): Child {
  const shown = JOBS_READ * shownOf(app, title).pages;
  return queue.length > 0 && section(title, { id: title.toLowerCase() }, h("ul", { class: "rows" }, queue.slice(0, shown).map((job) => queueRow(app, job))), moreButton(app, title, queue.length <= shown));
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
