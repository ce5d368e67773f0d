/** How samples become the model's inputs: shown, and editable as far as nothing depends on it. */

import type { App } from "../../app/app";
import { staleOf } from "../../app/queries";
import { modelPath } from "../../daemon/api";
import type { Model } from "../../daemon/types";
import { h } from "../../page/dom";
import { type Setting, settingsForm } from "../parts/form";
import { pairs, section } from "../parts/parts";

type Description = Model["preprocess"][number] & { kind: string };

/** Choices by kind and field. */
const CHOICES: Record<string, Record<string, readonly string[]>> = {
  image: { resize: ["cover", "contain", "stretch"], channels: ["rgb", "gray"], layout: ["nchw", "nhwc"] },
  windows: { layout: ["time_first", "channels_first"], label: ["majority", "last"] },
  audio: {
    features: ["log_mel", "mfcc"],
    layout: ["bands_first", "time_first"],
    mel_scale: ["htk", "slaney"],
    mel_norm: ["none", "slaney"],
    log: ["natural", "decibel"],
    padding: ["reflect", "none"],
  },
};
/** Fields that never change, or identify the description. */
const FIXED: Record<string, readonly string[]> = {
  image: ["orientation", "background", "padding", "resample"],
  windows: ["length"],
  audio: ["channels", "resample", "window", "power", "floor", "fit", "fill"],
};

export function preprocessView(app: App, model: Model): HTMLElement {
  const { preprocess, samples, latest_version: latest } = model;
  const isSettled = Object.values(samples).some((each) => each > 0) || (latest ?? 1) > 1;
  return section(
    "Preprocessing",
    { id: "preprocess" },
    preprocess.length === 0 && h("p", { class: "quiet" }, "None: samples are sent as raw tensors."),
    preprocess.length > 0 && isSettled && h("p", { class: "quiet" }, "There are samples or versions that depend on the rest, so only augment and, of texts, leave_out can be changed."),
    preprocess.map((each, place) => descriptionForm(app, model, { kind: "", ...each }, place, isSettled)),
  );
}

function descriptionForm(app: App, model: Model, description: Description, place: number, isSettled: boolean): HTMLElement {
  const { name, preprocess } = model;
  const settings = Object.keys({ ...description, augment: null })
    .filter((key) => (isSettled ? key === "augment" : !["input", "kind", ...(FIXED[description.kind] ?? [])].includes(key)))
    .map((key): Setting => settingOf(key, description[key], CHOICES[description.kind]?.[key]));
  return h(
    "div",
    { "data-key": String(description.input) },
    h("p", {}, h("strong", {}, String(description.input)), h("span", { class: "quiet" }, ` ${description.kind}`)),
    isSettled && pairs(Object.entries(description).filter(([key]) => !["input", "kind", "augment"].includes(key))),
    settingsForm(app, {
      name: `preprocess:${name}:${place}`,
      groups: [{ title: `Preprocessing of ${String(description.input)}`, settings }],
      values: description,
      pointer: preprocess.length > 1 ? `/preprocess/${place}` : "/preprocess",
      stale: staleOf({ name }),
      send: async (changed) => {
        const wanted = preprocess.map((each, at) => (at === place ? { ...each, ...changed } : each));
        await app.api.patch(modelPath(name), { preprocess: wanted });
        return `Preprocessing of ${name} saved.`;
      },
    }),
  );
}

function settingOf(name: string, value: unknown, choices?: readonly string[]): Setting {
  if (choices) return { name, title: name, kind: "choice", options: choices.map((each) => [each, each]) };
  return { name, title: name, kind: typeof value === "number" ? "number" : "json" };
}
