/** Predicts with the promoted version, and keeps corrected inputs as samples. */

import { modelPath, withQuery } from "../../daemon/api";
import type { App } from "../../app/app";
import { staleOf } from "../../app/queries";
import { type Child, h } from "../../page/dom";
import { decimal, percent } from "../../page/format";
import { fileKind } from "../../app/pictures";
import { typed } from "../../app/uploads";
import type { Accepted, Model } from "../../daemon/types";
import { fileButton, outcome, press, section } from "../parts/parts";

interface Prediction {
  label?: unknown;
  probabilities?: (number | null)[];
  values?: unknown[];
}

interface Answer {
  version: number;
  classes: string[] | null;
  predictions: Prediction[];
}

/** inputs: what was tried, as it is sent again when it becomes a sample. */
interface Trial extends Record<string, unknown> {
  body: Blob | null;
  picture: ImageBitmap | null;
  answer: Answer | null;
  /** The label under which it was kept. */
  kept: string | null;
}

export function tryTab(app: App, model: Model): HTMLElement {
  const trial = app.draft<Trial>(`try:${model.name}`, () => ({ body: null, picture: null, answer: null, kept: null }));
  return h(
    "div",
    {
      class: "columns",
      "data-key": "try",
      ondragover: (event: DragEvent) => event.preventDefault(),
      ondrop: (event: DragEvent) => {
        event.preventDefault();
        const file = event.dataTransfer?.files[0];
        if (file && fileKind(model) !== null) void predict(app, model, trial, typed(file));
      },
    },
    section("Try it", { id: "trial" }, fileKind(model) === null ? valuesField(app, model, trial) : fileField(app, model, trial), outcome(app, nameOf(model))),
    trial.answer === null ? null : section(`Version ${trial.answer.version} says`, { id: "answer" }, answerView(app, model, trial, trial.answer)),
  );
}

function nameOf({ name }: Model): string {
  return `try:${name}`;
}

function fileField(app: App, model: Model, trial: Trial): Child {
  const [what, accept] = fileKind(model) === "image" ? ["a picture", "image/*"] : ["a recording", ".wav,.flac"];
  const take = ([file]: FileList): void => {
    if (file) void predict(app, model, trial, typed(file));
  };
  const { picture } = trial;
  const draw = (canvas: HTMLCanvasElement): void => {
    if (picture) canvas.getContext("2d")?.drawImage(picture, 0, 0);
  };
  return [
    h(
      "div",
      { class: "drop" },
      h("p", { class: "quiet" }, `Drop ${what} here, or`),
      fileButton(`Choose ${what}`, take, { accept }),
    ),
    picture && h("canvas", { class: "tried", role: "img", "aria-label": "The picture", width: picture.width, height: picture.height, onpaint: draw }),
  ];
}

function valuesField(app: App, model: Model, trial: Trial): HTMLElement {
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    const inputs = Object.fromEntries(model.inputs.map(({ name, shape }) => [name, tensorOf(String(given.get(name)), shape)]));
    void predict(app, model, trial, new Blob([JSON.stringify({ inputs })], { type: "application/json" }));
  };
  return h(
    "form",
    { class: "form", onsubmit: send, novalidate: true },
    model.inputs.map(({ name, shape }) =>
      h(
        "label",
        { class: "form", "data-key": name },
        h("span", {}, name, h("span", { class: "quiet" }, ` ${shape.join("×") || "one"} numbers, with commas or spaces between`)),
        h("textarea", { name, rows: 3, spellcheck: "false" }),
      ),
    ),
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary", disabled: app.state.pending.has(nameOf(model)) }, "Predict")),
  );
}

/** Numbers in C order as nested lists; flat if they do not fit, which the daemon then reports. */
function tensorOf(text: string, shape: number[]): unknown {
  const numbers = text.split(/[\s,;[\]]+/).filter(Boolean).map(Number);
  const nest = (values: number[], sizes: number[]): unknown => {
    const [size, ...rest] = sizes;
    if (size === undefined) return values[0];
    if (rest.length === 0) return values;
    const each = values.length / size;
    return Array.from({ length: size }, (_, at) => nest(values.slice(at * each, (at + 1) * each), rest));
  };
  const count = shape.reduce((product, size) => product * size, 1);
  return numbers.length === count ? nest(numbers, shape) : numbers;
}

async function predict(app: App, model: Model, trial: Trial, body: Blob): Promise<void> {
  const done = await app.act(nameOf(model), [], async () => {
    const answer = await app.api.upload<Answer>(modelPath(model.name, "/predict"), body);
    const picture = body.type.startsWith("image/") ? await createImageBitmap(body) : null;
    Object.assign(trial, { body, answer, picture, kept: null });
    return null;
  });
  if (!done) Object.assign(trial, { answer: null, picture: null });
  app.draw();
}

function answerView(app: App, model: Model, trial: Trial, answer: Answer): Child[] {
  const [prediction] = answer.predictions;
  if (prediction === undefined) return [];
  const { probabilities, values } = prediction;
  if (!probabilities) return [h("p", { class: "measure" }, h("span", { class: "value" }, JSON.stringify(values, (_, value: unknown) => (typeof value === "number" ? Number(decimal(value).replaceAll(",", "")) : value))))];
  const names = answer.classes ?? probabilities.map((_, index) => String(index));
  const ranked = probabilities
    .map((probability, index) => ({ name: names[index] ?? String(index), index, probability: probability ?? 0 }))
    .sort((a, b) => b.probability - a.probability);
  return [
    h("p", { class: "quiet" }, trial.kept === null ? "Press what it is: that becomes a sample to train on." : `Kept as a sample: ${trial.kept}.`),
    h("ul", { class: "bars" }, ranked.map((each) => probabilityRow(app, model, trial, each))),
  ];
}

function probabilityRow(app: App, model: Model, trial: Trial, { name, index, probability }: { name: string; index: number; probability: number }): HTMLElement {
  return h(
    "li",
    { "data-key": name },
    press(app, {
      name: `keep:${model.name}:${index}`,
      label: name,
      about: "is right",
      stale: staleOf(model),
      disabled: trial.kept !== null,
      run: async () => {
        await keep(app, model, trial, index);
        trial.kept = name;
        return `Kept as a sample: ${name}.`;
      },
    }),
    h("span", { class: "number" }, percent(probability)),
    h("meter", { min: 0, max: 1, value: probability, "aria-label": `Probability of ${name}` }),
  );
}

async function keep(app: App, model: Model, { body }: Trial, label: number): Promise<void> {
  if (body === null) return;
  const path = modelPath(model.name, "/samples");
  if (fileKind(model) !== null) {
    await app.api.upload<Accepted>(withQuery(path, { label }), body);
    return;
  }
  const sample = { ...(JSON.parse(await body.text()) as object), label };
  await app.api.post<Accepted>(path, sample);
}
