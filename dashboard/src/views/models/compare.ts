/** Two versions side by side on today's validation samples. */

import type { App } from "../../app/app";
import { comparison, versions } from "../../app/queries";
import { to } from "../../app/route";
import type { Comparison, Metrics, Model, Version } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { count, decimal, percent, plural } from "../../page/format";
import { isShare, judgedBy, metricWords } from "../../page/words";
import { choice } from "../parts/filters";
import { loading, section, table, unseen } from "../parts/parts";
import { changedView } from "./changed";
import { matrixView } from "./confusion";

/** Figures beside a task's metrics, and which of them are shares of 1. */
const OTHER_FIGURES = ["macro_f1", "top_5_accuracy", "calibration_error", "r2"];
const OTHER_SHARES = new Set(["top_5_accuracy", "calibration_error"]);

export function compareTab(app: App, model: Model): HTMLElement | null {
  const list = versions(app, model.name);
  if (!list) return loading(list);
  if (list.length < 2) return h("p", { class: "quiet", "data-key": "one" }, "This model has only one version. Train it to compare the next one with it.");
  const { query } = app.route;
  const [newest, second] = list.map(({ version }) => version);
  const after = numberOf(query.get("b")) ?? newest ?? 1;
  const before = numberOf(query.get("a")) ?? earlier(model, list, after) ?? second ?? after;
  return h(
    "div",
    { class: "stack", "data-key": "compare" },
    chooser(app, model, list, before, after),
    before === after ? h("p", { class: "quiet", "data-key": "same" }, "Choose two different versions.") : found(app, model, before, after),
  );
}

function numberOf(text: string | null): number | null {
  return text !== null && /^[1-9]\d*$/.test(text) ? Number(text) : null;
}

/** The version that apps fetch, if it is another. */
function earlier({ latest_version: latest }: Model, list: Version[], after: number): number | null {
  return latest !== after && list.some(({ version }) => version === latest) ? latest : null;
}

function chooser(app: App, { name }: Model, list: Version[], before: number, after: number): HTMLElement {
  const go = (chosen: { a?: number; b?: number }): void => {
    const { query } = app.route; // a choice may have changed it since this was drawn
    const now = { a: numberOf(query.get("a")) ?? before, b: numberOf(query.get("b")) ?? after };
    app.go(to(["models", name, "compare"], { ...now, ...chosen }), { isSame: true });
  };
  const options = list.map(({ version, aliases }) => [String(version), [`version ${version}`, ...aliases].join(", ")] as const);
  return h(
    "div",
    { class: "toolbar", "data-key": `choose-${before}-${after}`, role: "group", "aria-label": "Versions" },
    choice("Before", String(before), options, (a) => go({ a: Number(a) }), "Before"),
    choice("After", String(after), options, (b) => go({ b: Number(b) }), "After"),
    h("button", { type: "button", onclick: () => go({ a: after, b: before }) }, "Swap"),
  );
}

function found(app: App, model: Model, before: number, after: number): Child {
  const known = comparison(app, model.name, before, after);
  if (known === undefined) return h("p", { class: "quiet", role: "status", "data-key": "running" }, "Running both versions on the validation samples. This may take a minute.");
  if (known === null) return h("p", { class: "quiet", "data-key": "missing" }, "These versions cannot be compared.");
  if (known.samples === 0) return h("p", { class: "quiet", "data-key": "empty" }, "There are no labelled validation samples to compare them on.");
  return [
    summary(known),
    section("Metrics", { id: "metrics" }, metricsTable(model, known)),
    confusions(known),
    h("div", { class: "columns", "data-key": "changed" }, changedView(app, model, known, "worse"), changedView(app, model, known, "better")),
    classesView(known),
  ];
}

function summary({ samples, left_out: left, better, worse, by }: Comparison): HTMLElement {
  const said = (total: number, side: string, change: string): string => (by === "class" ? plural(total, `is now ${side}`, `are now ${side}`) : `${count(total)} ${change}`);
  const rest = left > 0 ? ` Left out: ${plural(left, "sample")} of classes that only one version knows.` : "";
  return h(
    "p",
    { class: "sides", "data-key": "summary", role: "status" },
    `Of the current ${plural(samples, "validation sample")}, `,
    h("strong", { class: "good" }, said(better.total, "right", "improved")),
    ", ",
    h("strong", { class: "bad" }, said(worse.total, "wrong", "got worse")),
    `.${rest}`,
  );
}

function metricsTable(model: Model, { before, after, versions: pair }: Comparison): HTMLElement {
  const rows = [...new Set([...judgedBy(model), ...OTHER_FIGURES])]
    .filter((key) => typeof (before[key] ?? after[key]) === "number")
    .map((key): [string, unknown, unknown, boolean] => [metricWords(key), before[key], after[key], isShare(key) || OTHER_SHARES.has(key)]);
  return figures("Table of metrics", pair, [...rows, ...quantiles(before, after)]);
}

function quantiles(before: Metrics, after: Metrics): [string, unknown, unknown, boolean][] {
  const [then, now] = [before, after].map(({ error_quantiles: each }) => (each ?? {}) as Record<string, number>);
  return Object.keys(then ?? {}).map((share) => [`${(Number(share) * 100).toFixed(0)} % of errors are at most`, then?.[share], now?.[share], false]);
}

function figures(title: string, [first, second]: number[], rows: [string, unknown, unknown, boolean][]): HTMLElement {
  return table(
    title,
    [unseen("Figure"), `Version ${first}`, `Version ${second}`, "Change"],
    rows.map(([name, then, now, isShare]) => h("tr", { "data-key": name }, h("th", { scope: "row" }, name), figure(then, isShare), figure(now, isShare), difference(then, now, isShare))),
  );
}

function figure(value: unknown, isShare: boolean): HTMLElement {
  return h("td", { class: "number" }, typeof value === "number" ? (isShare ? percent(value) : decimal(value)) : "–");
}

function difference(then: unknown, now: unknown, isShare: boolean): HTMLElement {
  if (typeof then !== "number" || typeof now !== "number") return h("td", {});
  const change = now - then;
  const size = isShare ? `${(Math.abs(change) * 100).toFixed(1)} points` : decimal(Math.abs(change));
  return h("td", { class: "number" }, change === 0 ? "same" : `${change > 0 ? "+" : "−"}${size}`);
}

function confusions(known: Comparison): Child {
  const matrices = [known.before, known.after].map(({ confusion_matrix: each }) => each as number[][] | null | undefined);
  const [then, now] = matrices;
  if (!then || !now) return null;
  return h(
    "div",
    { class: "columns", "data-key": "matrices" },
    matrixView(`Version ${known.versions[0]}`, "matrix-before", then, known.classes, now),
    matrixView(`Version ${known.versions[1]}`, "matrix-after", now, known.classes, then),
  );
}

function classesView(known: Comparison): Child {
  const rows = Object.entries(known.before).flatMap(([key, then]) => {
    if (!Array.isArray(then) || key === "confusion_matrix") return [];
    const [metric, now] = [key.replace("_by_label", ""), known.after[key] as unknown[] | null];
    const isOfOne = metric === key || isShare(metric);
    return then.map((value: unknown, index): [string, unknown, unknown, boolean] => [`${metricWords(metric)} of ${known.classes?.[index] ?? index}`, value, now?.[index], isOfOne]);
  });
  return rows.length === 0 ? null : section("By class", { id: "each-class" }, figures("Table by class", known.versions, rows));
}
