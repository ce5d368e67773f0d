/** A model's settings, and what it is made of. */

import { modelPath } from "../../daemon/api";
import { metricsOf, taskOf } from "../../daemon/tasks";
import type { App } from "../../app/app";
import { staleOf } from "../../app/queries";
import { h } from "../../page/dom";
import { count } from "../../page/format";
import { metricWords } from "../../page/words";
import { to } from "../../app/route";
import type { Model } from "../../daemon/types";
import { limit, settingsForm, type Setting } from "../parts/form";
import { pairs, remover, section } from "../parts/parts";
import { baseView } from "./base";
import { classesView } from "./classes";
import { federationView } from "./federation";
import { followView } from "./follow";
import { preprocessView } from "./preprocess";
import { baseSetView, referenceView } from "./sets";
import { triggersView } from "./triggers";

interface Part {
  key: "gate" | "quota" | "retention";
  title: string;
  settings: Setting[];
}

const KEPT: Part[] = [
  {
    key: "quota",
    title: "Sample quota",
    settings: [
      limit("max_samples", "Maximum samples"),
      limit("max_bytes", "Maximum space", "MiB", 2 ** 20),
      { name: "when_full", title: "When full, evict", kind: "choice", options: [["oldest", "the oldest"], ["reservoir", "random ones"], ["balanced", "the oldest of the largest class"]] },
    ],
  },
  {
    key: "retention",
    title: "Version retention",
    settings: [limit("max_versions", "Maximum versions"), limit("max_age_days", "Maximum age", "days"), limit("max_bytes", "Maximum space", "MiB", 2 ** 20)],
  },
];

/** With the metrics of the model's task. */
function gateOf({ loss }: Model): Part {
  return {
    key: "gate",
    title: "Gate",
    settings: [
      { name: "mode", title: "A new version becomes latest", kind: "choice", options: [["if_not_worse", "if it is not worse"], ["always", "always"], ["manual", "only by hand"]] },
      { name: "metric", title: "Metric", kind: "choice", options: [...new Set([...metricsOf(loss), ...(taskOf(loss)?.byClass ?? [])])].map((name) => [name, metricWords(name)]) },
      { name: "label", title: "Only of the class or number", kind: "text", placeholder: "all" },
      { name: "margin", title: "Largest drop accepted as chance", kind: "number" },
      { name: "min_validation_samples", title: "Minimum validation samples", kind: "number" },
      { name: "min_per_class", title: "Minimum validation samples per class", kind: "number" },
      { name: "base_set", title: "Judge on the base set too", kind: "flag" },
      { name: "base_margin", title: "Largest accepted drop on the base set", kind: "number" },
      { name: "hold_on_drift", title: "Hold versions back while recent inputs have drifted", kind: "flag" },
    ],
  };
}

export function settingsTab(app: App, model: Model): HTMLElement {
  const { name } = model;
  const stale = staleOf(model);
  return h(
    "div",
    { class: "columns", "data-key": "settings" },
    h(
      "div",
      { class: "stack" },
      [gateOf(model), ...KEPT].map(({ key, title, settings }) =>
        section(
          title,
          { id: key },
          settingsForm(app, {
            name: `${key}:${name}`,
            groups: [{ title, settings }],
            values: model[key] as unknown as Record<string, unknown>,
            pointer: `/${key}`,
            stale,
            send: async (changed) => {
              // A quota and retention are replaced as a whole, a gate by its fields.
              const body = key === "gate" ? changed : { ...model[key], ...changed };
              await app.api.patch(modelPath(name), { [key]: body });
              return `${title} of ${name} saved.`;
            },
          }),
        ),
      ),
      baseSetView(app, model),
      referenceView(app, model),
    ),
    h("div", { class: "stack" }, baseView(app, model), followView(app, model), classesView(app, model), triggersView(app, model), preprocessView(app, model), federationView(app, model), aboutView(model), section("Delete", { id: "delete" }, deletion(app, model))),
  );
}

function aboutView(model: Model): HTMLElement {
  const { loss, optimizer, engine, output, parameters, notes, hyperparameters } = model;
  const details: [string, unknown][] = [
    ["loss", typeof loss === "string" ? loss : `output ${loss.output}`],
    ["optimizer", optimizer],
    ["engine", engine],
    ["output", output],
    ["trainable parameters", count(parameters.trainable)],
    ["frozen parameters", count(parameters.frozen)],
    ...Object.entries(hyperparameters),
  ];
  return section(
    "Details",
    { id: "about" },
    pairs(details),
    notes.length > 0 && h("ul", { class: "quiet" }, notes.map((note) => h("li", {}, note))),
    h("details", {}, h("summary", {}, `Trainable initializers (${parameters.names.length})`), h("ul", { class: "names" }, parameters.names.map((each) => h("li", {}, h("code", {}, each))))),
  );
}

function deletion(app: App, { name }: Model): HTMLElement {
  const button = remover(app, {
    label: "Delete the model …",
    about: name,
    title: `Delete ${name}?`,
    detail: "This permanently deletes its samples, jobs, checkpoints and versions. Apps can no longer fetch it.",
    yes: "Delete the model",
    name: `delete-model:${name}`,
    remove: () => app.api.remove(modelPath(name)).then(() => app.go(to(["models"]))),
    stale: [],
    said: `${name} deleted.`,
  });
  return h("div", { class: "buttons" }, button);
}
