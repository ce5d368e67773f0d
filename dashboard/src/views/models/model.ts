/** A model: what it is, its versions, and training it. */

import { modelPath } from "../../daemon/api";
import type { App } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { bytes, count, decimal, plural } from "../../page/format";
import { ended, endedPath, model, stats, versions } from "../../app/queries";
import { to } from "../../app/route";
import type { Job, Model, SampleStats } from "../../daemon/types";
import { compareTab } from "./compare";
import { outcomeRow } from "../overview";
import { fact, heading, loading, missing, opener, section, tabs } from "../parts/parts";
import { samplesTab } from "../samples/samples";
import { settingsTab } from "./settings";
import { openTraining } from "./train";
import { tryTab } from "./try";
import { aliasesView } from "../versions/aliases";
import { checkpointsView } from "../versions/checkpoints";
import { courseView } from "../versions/course";
import { driftView } from "../versions/drift";
import { timeline } from "../versions/versions";

const JOBS_SHOWN = 5;

interface Tab {
  key: string;
  name: string;
  view: (app: App, model: Model) => Child;
}

const TABS: readonly Tab[] = [
  { key: "", name: "Versions", view: versionsTab },
  { key: "samples", name: "Samples", view: samplesTab },
  { key: "try", name: "Try it", view: tryTab },
  { key: "compare", name: "Compare", view: compareTab },
  { key: "settings", name: "Settings", view: settingsTab },
];

export function modelPage(app: App, parts: string[]): Child {
  const [, name = "", key = ""] = parts;
  const known = model(app, name);
  if (known === undefined) return [heading(name), loading()];
  if (app.resources.isRefused(modelPath(name))) return [heading(name)];
  const tab = TABS.find((each) => each.key === key);
  if (known === null || tab === undefined) return missing(known === null ? `Model “${name}”` : "Page", to(["models"]), "All models");
  const all = TABS.map((each) => ({ name: each.name, href: to(["models", name, ...(each.key ? [each.key] : [])]) }));
  return [head(app, known), tabs(`Pages of ${name}`, all, tab.name), tab.view(app, known)];
}

function head(app: App, known: Model): HTMLElement {
  const { name, parameters, target, latest_version: latest } = known;
  const [inputs] = [known.inputs.map(({ name: input, shape }) => `${input} ${shape.join("×") || "1"}`).join(", ")];
  const classes = target.num_classes === null ? "" : `, ${plural(target.num_classes, "class", "classes")}`;
  return h(
    "div",
    { class: "heading", "data-key": "heading" },
    h("h1", { tabindex: -1 }, name),
    h(
      "p",
      { class: "quiet" },
      `${inputs}${classes}, ${count(parameters.trainable)} of ${count(parameters.trainable + parameters.frozen)} parameters trainable` +
        (latest === null ? "" : `, apps fetch version ${latest}`),
    ),
    opener(`train:${name}`, "Train …", () => openTraining(app, known), name, "primary"),
  );
}

function versionsTab(app: App, known: Model): HTMLElement {
  const list = versions(app, known.name);
  const mine = (ended(app, endedPath(known.name)).items ?? []).slice(0, JOBS_SHOWN);
  const counted = stats(app, known.name);
  return h(
    "div",
    { class: "columns wide", "data-key": "columns" },
    list ? timeline(app, known, list) : loading(list),
    h(
      "div",
      { class: "stack" },
      section("Samples", { id: "counts" }, samplesView(known, counted ?? null)),
      list ? courseView(app, known, list) : null,
      list ? driftView(app, known, list) : null,
      list ? aliasesView(app, known, list) : null,
      mine.length > 0 ? section("Recent jobs", { id: "model-jobs" }, jobRows(mine)) : null,
      checkpointsView(app, known),
    ),
  );
}

function jobRows(mine: Job[]): HTMLElement {
  return h("ul", { class: "rows" }, mine.map(outcomeRow));
}

function samplesView({ name, samples }: Model, counted: SampleStats | null): Child[] {
  if (Object.values(samples).every((each) => each === 0)) return [h("p", { class: "quiet" }, "No samples yet.")];
  const facts = [
    fact("train", count(samples.train)),
    fact("validation", count(samples.validation)),
    fact("unlabelled", count(samples.unlabelled)),
    samples.base > 0 && fact("base set", count(samples.base)),
    counted !== null && counted.quarantined > 0 && fact("quarantined", count(counted.quarantined)),
    counted !== null && fact("size", bytes(counted.size_bytes)),
  ];
  return [h("dl", { class: "facts" }, facts), counted === null ? null : classBars(name, counted)];
}

/** How many labelled samples each class has. */
function classBars(name: string, { labels }: SampleStats): HTMLElement | null {
  const byClass = new Map<string, number>();
  for (const { label, name: title, count: number } of labels) {
    if (label === null) continue;
    const key = title ?? String(label);
    byClass.set(key, (byClass.get(key) ?? 0) + number);
  }
  const most = Math.max(1, ...byClass.values());
  if (byClass.size === 0) return null;
  return h(
    "ul",
    { class: "bars", "aria-label": `Labelled samples of ${name} by class` },
    [...byClass].map(([title, number]) =>
      h(
        "li",
        { "data-key": title },
        h("span", {}, title),
        h("span", { class: "quiet number" }, count(number)),
        h("meter", { min: 0, max: most, value: number, "aria-label": `${title}: ${decimal(number)}` }),
      ),
    ),
  );
}
