/** The form of a job; fields left empty are the model's defaults or the job's choice. */

import { modelPath } from "../../daemon/api";
import type { App, Said } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { to } from "../../app/route";
import type { Checkpoint, Job, Model } from "../../daemon/types";
import { confirm, faultsAt } from "../parts/parts";

interface Field {
  name: string;
  title: string;
  unit?: string;
  step: string;
  /** The default if neither the request nor the model has a value. */
  fallback: string;
}

const FIELDS: readonly Field[] = [
  { name: "epochs", title: "Epochs", step: "1", fallback: "automatic" },
  { name: "max_seconds", title: "Time limit", unit: "seconds", step: "any", fallback: "no limit" },
  { name: "batch_size", title: "Batch size", unit: "samples", step: "1", fallback: "automatic, else 32" },
  { name: "learning_rate", title: "Learning rate", step: "any", fallback: "automatic, else 0.001" },
  { name: "early_stopping_patience", title: "Early-stopping patience", unit: "epochs", step: "1", fallback: "automatic" },
  { name: "seed", title: "Seed", step: "1", fallback: "random" },
];

/** checkpoint: where the job begins, unless another start is chosen. */
export function openTraining(app: App, model: Model, checkpoint: Checkpoint | null = null): void {
  const name = `train-dialog:${model.name}`;
  confirm(app, {
    title: `Train ${model.name}`,
    detail: h("span", { class: "quiet" }, "Empty fields use the value that they show."),
    fields: () => [
      h("div", { class: "fields" }, FIELDS.map((field) => fieldView(app, model, name, field)), startField(checkpoint)),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "ignore_policy" }), "Train now, ignoring the policy"),
    ],
    places: FIELDS.map((field) => `/${field.name}`),
    no: "Close",
    yes: "Queue the job",
    kind: "primary",
    name,
    stale: ["/v1/jobs", "/v1/device"],
    run: (given) => queue(app, model.name, bodyOf(given)),
  });
}

/** Asks for a job; a body without fields is of the model's defaults. */
export async function queue(app: App, model: string, body: object): Promise<Said> {
  const { id } = await app.api.post<Job>(modelPath(model, "/jobs"), body);
  return { text: `Job ${id} queued.`, link: to(["jobs", id]) };
}

function fieldView(app: App, model: Model, form: string, { name, title, unit, step, fallback }: Field): HTMLElement {
  const set = model.hyperparameters[name];
  const faults = faultsAt(app, form, `/${name}`);
  return h(
    "label",
    { "data-key": name },
    h("span", {}, title, unit ? h("span", { class: "quiet" }, ` (${unit})`) : null),
    h("input", {
      name,
      type: "number",
      step,
      placeholder: set === undefined || set === null ? fallback : `${String(set)}, the model’s default`,
      "aria-invalid": faults.length > 0,
    }),
    faults,
  );
}

function startField(checkpoint: Checkpoint | null): Child {
  return h(
    "label",
    { "data-key": "from" },
    h("span", {}, "Start from"),
    h(
      "select",
      { name: "from" },
      checkpoint !== null && h("option", { value: checkpoint.id }, `checkpoint ${checkpoint.id}, job ${checkpoint.job_id}, step ${checkpoint.step}`),
      h("option", { value: "latest" }, "the latest version"),
      h("option", { value: "base" }, "the model as registered"),
    ),
  );
}

function bodyOf(given: FormData): object {
  const from = given.get("from");
  const body: Record<string, unknown> = { from: Number(from) || from, ignore_policy: given.has("ignore_policy") };
  for (const field of FIELDS) {
    const text = String(given.get(field.name) ?? "").trim();
    if (text !== "") body[field.name] = Number(text);
  }
  return body;
}
