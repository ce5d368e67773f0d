/** A card for each model: samples, newest version against its baseline, promotion. */

import { type Child, h, s } from "../dom";
import { count, decimal, percent } from "../format";
import type { KnownModel, State } from "../state";
import type { Model, Version } from "../types";
import { type Measure, measure } from "../words";
import { badge, button, when } from "./parts";

export function modelsView(state: State): HTMLElement {
  const models = [...(state.models?.values() ?? [])];
  return h(
    "section",
    { class: "models", "aria-labelledby": "models" },
    h("h2", { id: "models" }, "Models"),
    models.length > 0 ? models.map((each) => modelView(state, each)) : emptyView(),
  );
}

function emptyView(): HTMLElement {
  return h(
    "div",
    { class: "card empty", "data-key": "empty" },
    h("p", {}, "No model yet. Register a forward ONNX file, then send it samples:"),
    h("pre", {}, h("code", {}, "honed models add base.onnx --name digits --loss cross_entropy")),
    h("p", { class: "quiet" }, "or POST /v1/models from any app; it shows here at once."),
  );
}

function modelView(state: State, { model, newest }: KnownModel): HTMLElement {
  const title = `model-${model.name}`;
  return h(
    "article",
    { class: "card model", "data-key": title, "aria-labelledby": title },
    h(
      "div",
      { class: "model-head" },
      h("h3", { id: title }, model.name),
      button(state, "train", model.name, "Train", model.name),
    ),
    h("p", { class: "samples" }, samples(model)),
    newest === null ? null : versionView(model, newest),
  );
}

function samples({ samples: { train, validation, unlabelled, base } }: Model): Child[] {
  if (train + validation + unlabelled + base === 0) return ["no samples yet"];
  const one = (value: number, name: string): Child =>
    h("span", { "data-key": name }, h("strong", {}, count(value)), ` ${name}`);
  const ordinary = [one(train, "train"), one(validation, "validation")];
  const known = base === 0 ? [] : [one(base, "base set")];
  return [...ordinary, ...known, one(unlabelled, "unlabelled")];
}

function versionView(model: Model, newest: Version): HTMLElement {
  const judged = measure(newest.metrics, newest.baseline, model.gate.metric);
  const isLatest = model.latest_version === newest.version;
  return h(
    "div",
    { class: "version" },
    h(
      "p",
      { class: "version-head" },
      h("strong", {}, `Version ${newest.version}`),
      newest.job_id !== null && promotion(newest),
      h("span", { class: "quiet" }, when(newest.created_at)),
    ),
    judged === null ? null : measureView(judged),
    newest.job_id === null
      ? h("p", { class: "quiet" }, "The model as it was registered.")
      : h("p", { class: "reason" }, newest.reason),
    !isLatest &&
      model.latest_version !== null &&
      h("p", { class: "quiet" }, `Apps fetch version ${model.latest_version}.`),
    model.held_since !== null &&
      h("p", { class: "quiet" }, "Held by hand ", when(model.held_since), ": jobs do not change it."),
  );
}

function promotion({ promoted }: Version): HTMLElement {
  return promoted ? badge("promoted", "promoted") : badge("held", "not promoted");
}

function measureView({ name, isShare, after, before }: Measure): HTMLElement {
  const show = isShare ? percent : decimal;
  const isBetter = before === null || (isShare ? after >= before : after <= before);
  return h(
    "div",
    { class: "measure" },
    h("p", {}, h("span", { class: "value" }, show(after)), ` validation ${name}`),
    before !== null &&
      h(
        "p",
        { class: isBetter ? "better" : "worse" },
        `${after >= before ? "up" : "down"} from its baseline’s ${show(before)}`,
      ),
    isShare && bar(after, before),
  );
}

/** The value as a bar, the baseline as a notch in it. */
function bar(after: number, before: number | null): SVGElement {
  return s(
    "svg",
    { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", width: 100, height: 8 }),
    s("rect", { class: "fill", width: after * 100, height: 8 }),
    before !== null && s("rect", { class: "notch", x: before * 100 - 0.4, width: 0.8, height: 8 }),
  );
}
