/** The form of a job; fields left empty are the model's defaults or the job's choice. */

import { modelPath } from "../../daemon/api";
import type { App } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { to } from "../../app/route";
import type { Checkpoint, Model } from "../../daemon/types";
import { faultsAt, outcome } from "../parts/parts";

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
  app.state.results.delete(name);
  app.open(() =>
    h(
      "form",
      { class: "form", "data-key": name, onsubmit: (event: SubmitEvent) => void submit(app, model, name, event) },
      h("h2", { id: "dialog-title" }, `Train ${model.name}`),
      h("p", { class: "quiet" }, "Empty fields use the value that they show."),
      h("div", { class: "fields" }, FIELDS.map((field) => fieldView(app, model, name, field)), startField(checkpoint)),
      h(
        "label",
        { class: "check" },
        h("input", { type: "checkbox", name: "ignore_policy" }),
        "Train now, ignoring the policy",
      ),
      outcome(app, name, FIELDS.map((field) => `/${field.name}`)),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => app.close() }, "Close"),
        h("button", { type: "submit", class: "primary", disabled: app.state.pending.has(name) }, "Queue the job"),
      ),
    ),
  );
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

async function submit(app: App, model: Model, name: string, event: SubmitEvent): Promise<void> {
  event.preventDefault();
  const given = new FormData(event.currentTarget as HTMLFormElement);
  const from = given.get("from");
  const body: Record<string, unknown> = { from: Number(from) || from, ignore_policy: given.has("ignore_policy") };
  for (const field of FIELDS) {
    const text = String(given.get(field.name) ?? "").trim();
    if (text !== "") body[field.name] = Number(text);
  }
  const hasWorked = await app.act(name, ["/v1/jobs", "/v1/device"], async () => {
    const job = await app.api.post<{ id: number }>(modelPath(model.name, "/jobs"), body);
    return { text: `Job ${job.id} queued.`, link: to(["jobs", job.id]) };
  });
  if (hasWorked) app.close();
}
