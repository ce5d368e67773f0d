/** All models as one table: sorted, searched, with the metric's history. */

import type { App } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { count, decimal, percent, plural } from "../../page/format";
import { latest, models, versions } from "../../app/queries";
import { to } from "../../app/route";
import type { Model, Version } from "../../daemon/types";
import { type Measure, measureOf } from "../../page/words";
import { badge, heading, loading, press, scrolled, when } from "../parts/parts";
import { sparkline } from "../parts/spark";
import { measured } from "../versions/course";
import { queue } from "./train";

type Order = "name" | "samples" | "metric" | "changed";

interface Row {
  model: Model;
  /** Newest first, undefined until they are loaded. */
  versions: Version[] | undefined;
  newest: Version | null;
  latest: Version | null;
  /** Of `latest`. */
  metric: Measure | null;
}

const COLUMNS: { order: Order | null; title: string }[] = [
  { order: "name", title: "Name" },
  { order: "samples", title: "Samples" },
  { order: null, title: "Version" },
  { order: "metric", title: "Metric" },
  { order: null, title: "Trend" },
  { order: "changed", title: "Changed" },
  { order: null, title: "" },
];

export function modelsPage(app: App): Child[] {
  const all = models(app);
  if (all === undefined) return [heading("Models"), loading()];
  if (all === null) return [heading("Models")];
  if (all.length === 0) return [heading("Models", addLink()), addModelHint()];
  const { query } = app.route;
  const search = (query.get("q") ?? "").toLowerCase();
  const found = all.filter(({ name }) => name.toLowerCase().includes(search));
  const isEmpty = (model: Model): boolean => total(model) === 0;
  const rows = found.filter((model) => !isEmpty(model)).map((model) => rowOf(app, model));
  const order = (query.get("sort") as Order | null) ?? "name";
  const isDown = query.has("down");
  rows.sort((a, b) => (isDown ? -1 : 1) * compared(a, b, order));
  const empty = found.filter(isEmpty);
  return [
    heading("Models", searchField(app, search), addLink()),
    h("p", { class: "visually-hidden", role: "status" }, plural(found.length, "model")),
    rows.length > 0 ? table(app, rows, order, isDown) : null,
    found.length === 0 ? h("p", { class: "quiet" }, `No model has a name with “${search}” in it.`) : null,
    empty.length > 0 ? emptyView(empty, rows.length === 0) : null,
  ];
}

export function addModelHint(): HTMLElement {
  return h(
    "section",
    { class: "card empty", "data-key": "empty", "aria-label": "No models yet" },
    h("p", {}, "No models yet. ", h("a", { href: to(["add"]) }, "Add one"), " by dropping a forward ONNX file, or from a terminal:"),
    h("pre", {}, h("code", {}, "honed models add base.onnx --name digits --loss cross_entropy")),
    h("p", { class: "quiet" }, "or with POST /v1/models from any app; it appears here immediately."),
  );
}

function addLink(): HTMLElement {
  return h("a", { class: "button", href: to(["add"]), "data-key": "add" }, "Add a model");
}

function rowOf(app: App, model: Model): Row {
  const known = versions(app, model.name) ?? undefined;
  const fetched = known ? latest(app, model, known) : null;
  const metric = fetched && measureOf(model, known ?? [], fetched);
  return { model, versions: known, newest: known?.[0] ?? null, latest: fetched, metric };
}

function compared(a: Row, b: Row, order: Order): number {
  const byName = a.model.name.localeCompare(b.model.name);
  if (order === "samples") return total(a.model) - total(b.model) || byName;
  if (order === "metric") return (a.metric?.after ?? -Infinity) - (b.metric?.after ?? -Infinity) || byName;
  if (order === "changed") return (a.newest?.created_at ?? "").localeCompare(b.newest?.created_at ?? "") || byName;
  return byName;
}

export function total({ samples }: Model): number {
  return samples.train + samples.validation + samples.unlabelled + samples.base;
}

function searchField(app: App, search: string): HTMLElement {
  const { query } = app.route;
  return h("input", {
    type: "search",
    "aria-label": "Search models",
    placeholder: "Search",
    value: search,
    oninput: (event: InputEvent) => {
      const field = event.currentTarget as HTMLInputElement;
      app.go(to(["models"], { q: field.value, sort: query.get("sort"), down: query.get("down") }), { isSame: true });
    },
  });
}

function table(app: App, rows: Row[], order: Order, isDown: boolean): HTMLElement {
  return h(
    "div",
    { class: "card", "data-key": "table" },
    scrolled(
      "Models",
      h(
        "table",
        { class: "models" },
        h("thead", {}, h("tr", {}, COLUMNS.map((column) => columnHead(app, column, order, isDown)))),
        h("tbody", {}, rows.map((row) => modelRow(app, row))),
      ),
    ),
  );
}

function columnHead(app: App, { order, title }: (typeof COLUMNS)[number], now: Order, isDown: boolean): HTMLElement {
  if (order === null) return h("th", { scope: "col" }, title || h("span", { class: "visually-hidden" }, "Actions"));
  const isNow = order === now;
  const turn = (): void =>
    app.go(to(["models"], { q: app.route.query.get("q"), sort: order, down: isNow && !isDown ? 1 : null }), { isSame: true });
  return h(
    "th",
    { scope: "col", "aria-sort": isNow ? (isDown ? "descending" : "ascending") : null },
    h("button", { type: "button", class: "sort", onclick: turn }, title),
  );
}

function modelRow(app: App, { model, versions: known, newest, latest: fetched, metric }: Row): HTMLElement {
  const { name, samples } = model;
  return h(
    "tr",
    { "data-key": `model-${name}`, "aria-label": name },
    h("th", { scope: "row" }, h("a", { href: to(["models", name]) }, name)),
    h(
      "td",
      { class: "number" },
      h("a", { class: "plain", href: to(["models", name, "samples"]) }, count(total(model))),
      samples.unlabelled > 0 && h("span", { class: "quiet" }, ` ${count(samples.unlabelled)} unlabelled`),
    ),
    h("td", {}, versionCell(newest, fetched)),
    h("td", { class: "number" }, metric && h("span", { title: `validation ${metric.name}` }, shown(metric))),
    h("td", {}, courseOf(model, known ?? [])),
    h("td", { class: "quiet" }, newest ? when(newest.created_at) : null),
    h("td", { class: "act" }, trainButton(app, name)),
  );
}

/** The version that apps fetch, and the newest if it is another. */
function versionCell(newest: Version | null, fetched: Version | null): Child[] {
  const isNewest = newest?.version === fetched?.version;
  return [
    fetched && [`${fetched.version} `, (fetched.job_id !== null || !isNewest) && badge("latest", "latest")],
    newest && !isNewest && [" ", newest.promoted ? badge("queued", `${newest.version} newest`) : badge("held", `${newest.version} not promoted`)],
  ];
}

export function shown({ isShare, after }: Pick<Measure, "isShare" | "after">): string {
  return isShare ? percent(after) : decimal(after);
}

/** The metric of each version, oldest first; dots of promoted ones are filled. */
function courseOf(model: Model, known: Version[]): Element {
  const judged = measured(model, known);
  const values = judged.map(({ metric }) => metric.after);
  const [name] = judged.map(({ metric }) => metric.name);
  const label = `${name ?? "metric"} from ${decimal(values[0] ?? 0)} to ${decimal(values.at(-1) ?? 0)}`;
  return sparkline(values, label, judged.map(({ version }) => version.promoted));
}

/** Trains with the model's defaults. */
export function trainButton(app: App, name: string): HTMLElement {
  return press(app, {
    name: `train:${name}`,
    label: "Train",
    about: name,
    stale: ["/v1/jobs", "/v1/device"],
    run: () => queue(app, name, {}),
  });
}

function emptyView(empty: Model[], isOpen: boolean): HTMLElement {
  return h(
    "details",
    { class: "card", "data-key": "without", open: isOpen },
    h("summary", {}, `Without samples (${empty.length})`),
    h(
      "ul",
      { class: "names" },
      empty.map(({ name }) => h("li", { "data-key": name }, h("a", { href: to(["models", name]) }, name))),
    ),
  );
}
