/** How samples become the model's inputs: shown, and editable as far as nothing depends on it. */

import type { App } from "../../app/app";
import { staleOf } from "../../app/queries";
import { modelPath } from "../../daemon/api";
import type { Model } from "../../daemon/types";
import { h } from "../../page/dom";
import { type Setting, settingsForm } from "../parts/form";
import { section } from "../parts/parts";

type Description = Model["preprocess"][number];

const CHOICES: Record<string, readonly string[]> = {
  resize: ["cover", "contain", "stretch"],
  channels: ["rgb", "gray"],
  layout: ["nchw", "nhwc"],
};
/** Fields that never change, or identify the description. */
const FIXED = new Set(["input", "kind", "orientation", "background", "padding", "resample"]);

export function preprocessView(app: App, model: Model): HTMLElement {
  const { preprocess, samples, latest_version: latest } = model;
  const isSettled = Object.values(samples).some((each) => each > 0) || (latest ?? 1) > 1;
  return section(
    "Preprocessing",
    { id: "preprocess" },
    preprocess.length === 0 && h("p", { class: "quiet" }, "None: samples are sent as the tensors that the model takes."),
    preprocess.length > 0 && isSettled && h("p", { class: "quiet" }, "There are samples or versions, so that only augment changes: nothing that apps get depends on it."),
    preprocess.map((each, place) => descriptionForm(app, model, each, place, isSettled)),
  );
}

function descriptionForm(app: App, model: Model, description: Description, place: number, isSettled: boolean): HTMLElement {
  const { name, preprocess } = model;
  const settings = Object.keys({ ...description, augment: null })
    .filter((key) => (isSettled ? key === "augment" : !FIXED.has(key)))
    .map((key): Setting => settingOf(key, description[key]));
  return h(
    "div",
    { "data-key": String(description.input) },
    h("p", {}, h("strong", {}, String(description.input)), h("span", { class: "quiet" }, ` ${description.kind}`)),
    isSettled && h("dl", { class: "pairs" }, Object.entries(description).filter(([key]) => !["input", "kind", "augment"].includes(key)).map(([key, value]) => h("div", { "data-key": key }, h("dt", {}, key), h("dd", {}, typeof value === "string" ? value : JSON.stringify(value))))),
    settingsForm(app, {
      name: `preprocess:${name}:${place}`,
      groups: [{ title: `Preprocessing of ${String(description.input)}`, settings }],
      values: description,
      pointer: preprocess.length > 1 ? `/preprocess/${place}` : "/preprocess",
      stale: staleOf({ name }),
      send: async (changed) => {
        const wanted = preprocess.map((each, at) => (at === place ? { ...each, ...changed } : each));
        await app.api.patch(modelPath(name), { preprocess: wanted });
        return `The preprocessing of ${name} is changed.`;
      },
    }),
  );
}

function settingOf(name: string, value: unknown): Setting {
  const choices = CHOICES[name];
  if (choices) return { name, title: name, kind: "choice", options: choices.map((each) => [each, each]) };
  return { name, title: name, kind: typeof value === "number" ? "number" : "json" };
}
