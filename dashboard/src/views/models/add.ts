/** Adds a model: a dropped ONNX file, its diagnosis, and the model's settings. */

import type { App } from "../../app/app";
import {
  checkProblem,
  diagnose,
  type Draft,
  draftOf,
  faultsAt,
  NAME,
  nameOf,
  OWN_LOSS,
  presetOf,
  register,
  specOf,
  take,
} from "../../app/registration";
import { to } from "../../app/route";
import { TASKS } from "../../daemon/tasks";
import { type Child, h } from "../../page/dom";
import { bytes } from "../../page/format";
import { dropping, fileButton, heading, outcome } from "../parts/parts";
import { diagnosisView } from "./diagnosis";

const LOSSES = Object.entries(TASKS).map(([name, { title }]) => [name, title] as const);
const OPTIMIZERS = ["adamw", "adam", "sgd", "rmsprop", "lion"];
const SAMPLES = [
  ["", "raw tensors"],
  ["image", "color images"],
  ["gray", "grayscale images"],
  ["standardize", "numbers to standardize"],
  ["windows", "time series windows, time × channels"],
  ["windows, turned", "time series windows, channels × time"],
  ["audio", "audio, bands × frames"],
  ["audio, turned", "audio, frames × bands"],
  ["text", "texts, with a tokenizer"],
] as const;
const FIELDS = ["name", "loss", "classes", "trainable", "optimizer", "output", "preprocess"];
/** Where the form shows what is wrong. */
const PLACES = ["/model", "/artifacts", "/tokenizer", ...FIELDS.map((name) => `/spec/${name}`)];
/** Fields on which the check depends. */
const CHECKED = ["loss", "classes", "trainable", "output", "preprocess"];

export function addPage(app: App): Child[] {
  const draft = draftOf(app);
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    void register(app, new FormData(event.currentTarget as HTMLFormElement)).then((name) => {
      if (name !== null) app.go(to(["models", name, "samples"]));
    });
  };
  return [
    heading("Add a model"),
    h(
      "form",
      {
        class: "card form",
        novalidate: true,
        "data-key": "form",
        onsubmit: send,
        onchange: (event: Event) => changed(app, draft, event),
        ...dropping(({ files }) => take(app, files[0])),
      },
      fileField(app, draft),
      fields(app, draft),
      outcome(app, NAME, PLACES),
      buttons(app, draft),
    ),
    draft.found === null ? null : diagnosisView(draft.found),
  ];
}

/** Checks the user's choice as soon as they leave the field. */
function changed(app: App, draft: Draft, event: Event): void {
  const { name, form } = event.target as HTMLInputElement;
  if (form === null || !CHECKED.includes(name)) return;
  draft.touched.add(name);
  void diagnose(app, specOf(draft, new FormData(form), draft.file?.name.endsWith(".zip") ?? false));
}

function buttons(app: App, draft: Draft): HTMLElement {
  const isPending = app.state.pending.has(NAME);
  // The first check chooses the loss.
  const isUnknown = draft.found === null && draft.abort !== null;
  const says = isPending ? "Preparing the model. This may take a minute." : draft.abort ? "Checking the file …" : null;
  return h(
    "div",
    { class: "buttons", "data-key": "buttons" },
    h("button", { type: "submit", class: "primary", disabled: draft.file === null || isPending || isUnknown }, "Register the model"),
    h("span", { class: "quiet", role: "status" }, says),
  );
}

function fileField(app: App, { file }: Draft): HTMLElement {
  const problem = checkProblem(app);
  return h(
    "div",
    { class: "drop", "data-key": "file", role: "group", "aria-label": "The file" },
    h("p", { class: "quiet" }, file === null ? "Drop a forward ONNX file here, or" : h("span", {}, h("strong", {}, file.name), ` ${bytes(file.size)}`)),
    fileButton(file === null ? "Choose a file" : "Choose another", (chosen) => take(app, chosen), { accept: ".onnx,.zip" }),
    faults(app, "/model"),
    faults(app, "/artifacts"),
    problem === null ? null : h("span", { class: "problem", role: "alert" }, problem),
  );
}

function fields(app: App, draft: Draft): HTMLElement {
  const suggested = draft.found?.suggested ?? null;
  const field = (name: string, title: string, control: HTMLElement): HTMLElement =>
    h("label", { "data-key": name }, h("span", {}, title), control, faults(app, `/spec/${name}`));
  const text = (name: string, placeholder: string, value = ""): HTMLElement =>
    h("input", { name, type: "text", placeholder, value, autocomplete: "off", spellcheck: "false", "aria-invalid": faultsAt(app, `/spec/${name}`).length > 0 });
  const select = (name: string, options: readonly (readonly [string, string])[], chosen: string | null): HTMLElement =>
    h("select", { name }, options.map(([value, words]) => h("option", { value, selected: value === chosen }, words)));
  const [preprocess] = suggested?.preprocess ?? [];
  const [losses, loss] = lossChoices(draft);
  // Another file has fresh fields: what was typed for the previous one is dropped.
  return h(
    "div",
    { class: "fields", "data-key": `fields-${draft.round}` },
    field("name", "Name", text("name", nameOf(draft.file) ?? "digits")),
    field("loss", "Loss", select("loss", losses, loss)),
    field("classes", "Classes, comma-separated", text("classes", "cat, dog; empty: numbered", suggested?.classes?.join(", "))),
    field("trainable", "Trainable weights", text("trainable", "head, last:2; empty: all")),
    field("optimizer", "Optimizer", select("optimizer", OPTIMIZERS.map((value) => [value, value]), null)),
    field("output", "Output that apps get", text("output", "the only output", suggested?.output ?? "")),
    field("preprocess", "Sample format", select("preprocess", SAMPLES, preprocess ? presetOf(preprocess) : null)),
    tokenizerField(app, draft),
  );
}

/** Once it is chosen, samples are texts. */
function tokenizerField(app: App, draft: Draft): HTMLElement {
  const take = (event: Event): void => {
    const { files, form } = event.currentTarget as HTMLInputElement;
    const samples = form?.elements.namedItem("preprocess");
    if (!files?.[0] || form === null || !(samples instanceof HTMLSelectElement)) return;
    draft.tokenizer = files[0];
    samples.value = "text";
    draft.touched.add("preprocess");
    void diagnose(app, specOf(draft, new FormData(form), false));
  };
  return h(
    "label",
    { "data-key": "tokenizer" },
    h("span", {}, "Tokenizer, for texts"),
    h("span", { class: "file" }, draft.tokenizer?.name ?? "Choose tokenizer.json", h("input", { type: "file", accept: ".json", class: "visually-hidden", onchange: take })),
    faults(app, "/tokenizer"),
  );
}

/** The losses, with outputs that may be a loss of the model's own, and the one that the file suggests. */
function lossChoices({ found }: Draft): [readonly (readonly [string, string])[], string | null] {
  const loss = found?.suggested?.loss ?? null;
  const numbers = (found?.outputs ?? []).filter(({ dtype, shape }) => dtype === "float32" && !shape?.length);
  const own = numbers.map(({ name }): [string, string] => [`${OWN_LOSS}${name}`, `the model’s own: ${name}`]);
  return [[...LOSSES, ...own], loss === null || typeof loss === "string" ? loss : `${OWN_LOSS}${loss.output}`];
}

function faults(app: App, place: string): Child {
  return faultsAt(app, place).map((detail) => h("span", { class: "problem" }, detail));
}
