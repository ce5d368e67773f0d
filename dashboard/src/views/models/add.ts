/** Adds a model: an ONNX file that is dropped, and what the daemon must know of it. */

import type { App } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { bytes } from "../../page/format";
import { to } from "../../app/route";
import type { Model } from "../../daemon/types";
import { heading } from "../parts/parts";

const NAME = "add-model";
const LOSSES = [
  ["cross_entropy", "cross entropy: one of several classes"],
  ["bce_with_logits", "binary cross entropy: each of several yes or no"],
  ["mse", "mean squared error: numbers"],
  ["l1", "absolute error: numbers"],
  ["huber", "Huber: numbers, with outliers"],
] as const;
const OPTIMIZERS = ["adamw", "adam", "sgd", "rmsprop", "lion"];

const PREPROCESS: Record<string, object> = {
  image: { kind: "image" },
  gray: { kind: "image", channels: "gray" },
  standardize: { kind: "standardize" },
};

interface Draft extends Record<string, unknown> {
  file: File | null;
}

export function addPage(app: App): Child[] {
  const draft = app.draft<Draft>(NAME, () => ({ file: null }));
  const take = (file: File | null | undefined): void => {
    if (!file) return;
    draft.file = file;
    app.state.results.delete(NAME);
    app.draw();
  };
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    void register(app, draft, new FormData(event.currentTarget as HTMLFormElement));
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
        ondragover: (event: DragEvent) => event.preventDefault(),
        ondrop: (event: DragEvent) => {
          event.preventDefault();
          take(event.dataTransfer?.files[0]);
        },
      },
      fileField(app, draft, take),
      fields(app, draft),
      others(app),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "submit", class: "primary", disabled: draft.file === null || app.state.pending.has(NAME) }, "Register the model"),
        app.state.pending.has(NAME) && h("span", { class: "quiet", role: "status" }, "The daemon prepares the model. That may take a minute."),
      ),
    ),
  ];
}

function fileField(app: App, { file }: Draft, take: (file: File | undefined) => void): HTMLElement {
  return h(
    "div",
    { class: "drop", "data-key": "file", role: "group", "aria-label": "The file" },
    h("p", { class: "quiet" }, file === null ? "Drop a forward ONNX file here, or" : h("span", {}, h("strong", {}, file.name), ` ${bytes(file.size)}`)),
    h(
      "label",
      { class: "file" },
      file === null ? "Choose a file" : "Choose another",
      h("input", {
        type: "file",
        accept: ".onnx,.zip",
        class: "visually-hidden",
        onchange: (event: Event) => take((event.currentTarget as HTMLInputElement).files?.[0]),
      }),
    ),
    faults(app, "/model"),
    faults(app, "/artifacts"),
  );
}

function fields(app: App, { file }: Draft): HTMLElement {
  const field = (name: string, title: string, control: HTMLElement): HTMLElement =>
    h("label", { "data-key": name }, h("span", {}, title), control, faults(app, `/spec/${name}`));
  const text = (name: string, placeholder: string): HTMLElement =>
    h("input", { name, type: "text", placeholder, autocomplete: "off", spellcheck: "false", "aria-invalid": faultsAt(app, `/spec/${name}`).length > 0 });
  return h(
    "div",
    { class: "fields" },
    field("name", "Name", text("name", nameOf(file) ?? "digits")),
    field("loss", "Loss", h("select", { name: "loss" }, LOSSES.map(([value, words]) => h("option", { value }, words)))),
    field("classes", "Classes, with commas between", text("classes", "cat, dog; none: by number")),
    field("trainable", "What trains", text("trainable", "head, last:2, classifier.*; none: all weights")),
    field("optimizer", "Optimizer", h("select", { name: "optimizer" }, OPTIMIZERS.map((value) => h("option", { value }, value)))),
    field("output", "Output that the loss takes", text("output", "the graph’s only output")),
    field(
      "preprocess",
      "Samples are",
      h("select", { name: "preprocess" }, h("option", { value: "" }, "tensors as the model takes them"), h("option", { value: "image" }, "colour pictures"), h("option", { value: "gray" }, "gray pictures"), h("option", { value: "standardize" }, "numbers to standardize")),
    ),
  );
}

function nameOf(file: File | null): string | null {
  return file === null ? null : file.name.replace(/\.\w+$/, "").toLowerCase().replace(/[^a-z0-9_.-]+/g, "-");
}

/** Errors that belong to no field. */
function others(app: App): HTMLElement | null {
  const result = app.state.results.get(NAME);
  if (result === undefined) return null;
  const known = ["/model", "/artifacts", ...["name", "loss", "classes", "trainable", "optimizer", "output", "preprocess"].map((name) => `/spec/${name}`)];
  const rest = result.faults.filter(({ pointer }) => !known.some((place) => isAt(pointer, place)));
  return h(
    "div",
    { class: "problem", role: "alert", "data-key": "problem" },
    h("p", {}, result.text),
    rest.length > 0 && h("ul", {}, rest.map(({ pointer, detail }) => h("li", {}, h("code", {}, pointer), ` ${detail}`))),
  );
}

function faults(app: App, place: string): Child {
  return faultsAt(app, place).map((detail) => h("span", { class: "problem" }, detail));
}

function faultsAt(app: App, place: string): string[] {
  const all = app.state.results.get(NAME)?.faults ?? [];
  return [...new Set(all.filter(({ pointer }) => isAt(pointer, place)).map(({ detail }) => detail))];
}

function isAt(pointer: string, place: string): boolean {
  return pointer === place || pointer.startsWith(`${place}/`);
}

async function register(app: App, draft: Draft, given: FormData): Promise<void> {
  const { file } = draft;
  if (file === null) return;
  const body = new FormData();
  body.append("spec", JSON.stringify(specOf(file, given)));
  body.append(file.name.endsWith(".zip") ? "artifacts" : "model", file, file.name);
  const done: string[] = [];
  await app.act(NAME, ["/v1/models?"], async () => {
    const model = await app.api.upload<Model>("/v1/models", body);
    done.push(model.name);
    return `${model.name} is registered; its version 1 is the model as it came.`;
  });
  const [name] = done;
  if (name === undefined) return;
  app.state.drafts.delete(NAME);
  app.go(to(["models", name, "samples"]));
}

function specOf(file: File, given: FormData): Record<string, unknown> {
  const text = (name: string): string => String(given.get(name) ?? "").trim();
  const listed = (name: string): string[] => text(name).split(",").map((part) => part.trim()).filter(Boolean);
  const [classes, trainable] = [listed("classes"), listed("trainable")];
  return {
    name: text("name") || nameOf(file),
    loss: text("loss"),
    optimizer: text("optimizer"),
    ...(classes.length > 0 ? { classes } : {}),
    ...(trainable.length > 0 ? { trainable } : {}),
    ...(text("output") ? { output: text("output") } : {}),
    ...(text("preprocess") ? { preprocess: [PREPROCESS[text("preprocess")]] } : {}),
  };
}
