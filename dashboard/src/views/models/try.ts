/** Tries the promoted version on a file, on numbers or on a stored sample, whose label can be set. */

import type { App } from "../../app/app";
import { labelText, likelyClassesOf, severalOf } from "../../app/labels";
import { fileKind } from "../../app/pictures";
import { pagesOf, prediction, sample, staleOf } from "../../app/queries";
import { to } from "../../app/route";
import { typed } from "../../app/uploads";
import { modelPath, withQuery } from "../../daemon/api";
import { taskOf } from "../../daemon/tasks";
import type { Accepted, Answer, Model, Sample } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { choice, filters, pagesView } from "../parts/filters";
import { dropping, fileButton, loading, outcome, section } from "../parts/parts";
import { sampleView } from "../samples/content";
import { answerView, arrayView, predictedView, subjectOf, takeParts } from "./answer";
import { completionField } from "./complete";

const STORED_SHOWN = 12;
const JSON_TYPE = "application/json";
const SPLITS = [["validation", "validation"], ["train", "train"], ["", "any"]] as const;

/** body: what was tried, as it is sent again when it becomes a sample. */
interface Trial extends Record<string, unknown> {
  body: Blob | null;
  picture: ImageBitmap | null;
  answer: Answer | null;
  /** What was tried, if it is a text. */
  text: string | undefined;
  /** The class, or the spans, with which it was kept. */
  kept: unknown;
}

export function tryTab(app: App, model: Model): HTMLElement {
  const trial = app.draft<Trial>(nameOf(model), () => ({ body: null, picture: null, answer: null, text: undefined, kept: null }));
  const id = Number(app.route.query.get("sample"));
  return h(
    "div",
    {
      class: "stack",
      "data-key": "try",
      ...dropping(({ files: [file] }) => {
        if (file && fileKind(model) !== null) void predict(app, model, trial, typed(file));
      }),
    },
    h(
      "div",
      { class: "columns", "data-key": "columns" },
      section("Try it", { id: "trial" }, fieldOf(app, model, trial), outcome(app, nameOf(model))),
      id > 0 ? storedAnswer(app, model, id) : trialAnswer(app, model, trial),
    ),
    storedView(app, model, id),
  );
}

function nameOf({ name }: Model): string {
  return `try:${name}`;
}

function fieldOf(app: App, model: Model, trial: Trial): Child {
  if (taskOf(model.loss)?.continuesTexts) return completionField(app, model);
  if (fileKind(model) === "text") return textField(app, model, trial);
  return fileKind(model) === null ? valuesField(app, model, trial) : fileField(app, model, trial);
}

function textField(app: App, model: Model, trial: Trial): HTMLElement {
  const isPair = model.preprocess.some(({ pairs }) => pairs === true);
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    void predict(app, model, trial, new Blob([JSON.stringify(Object.fromEntries(given))], { type: JSON_TYPE }), String(given.get("text")));
  };
  const field = (name: string, title: string): HTMLElement =>
    h("label", { class: "form", "data-key": name }, h("span", {}, title), h("textarea", { name, rows: 3, dir: "auto" }));
  return h(
    "form",
    { class: "form", onsubmit: send, novalidate: true },
    field("text", isPair ? "First text" : "Text"),
    isPair ? field("text_pair", "Second text") : null,
    predictButton(app, model),
  );
}

function predictButton(app: App, model: Model): HTMLElement {
  return h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary", disabled: app.state.pending.has(nameOf(model)) }, "Predict"));
}

function fileField(app: App, model: Model, trial: Trial): Child {
  const [what, accept] = fileKind(model) === "image" ? ["an image", "image/*"] : ["a recording", ".wav,.flac"];
  const take = (file: File): void => void predict(app, model, trial, typed(file));
  const { picture } = trial;
  const draw = (canvas: HTMLCanvasElement): void => {
    if (picture) canvas.getContext("2d")?.drawImage(picture, 0, 0);
  };
  return [
    h("div", { class: "drop" }, h("p", { class: "quiet" }, `Drop ${what} here, or`), fileButton(`Choose ${what}`, take, { accept })),
    picture && h("canvas", { class: "tried", role: "img", "aria-label": "The image", width: picture.width, height: picture.height, onpaint: draw }),
  ];
}

function valuesField(app: App, model: Model, trial: Trial): HTMLElement {
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    const inputs = Object.fromEntries(model.inputs.map(({ name, shape }) => [name, tensorOf(String(given.get(name)), shape)]));
    void predict(app, model, trial, new Blob([JSON.stringify({ inputs })], { type: JSON_TYPE }));
  };
  return h(
    "form",
    { class: "form", onsubmit: send, novalidate: true },
    model.inputs.map(({ name, shape }) =>
      h(
        "label",
        { class: "form", "data-key": name },
        h("span", {}, name, h("span", { class: "quiet" }, ` ${shape.join("×") || "one"} numbers, separated by commas or spaces`)),
        h("textarea", { name, rows: 3, spellcheck: "false" }),
      ),
    ),
    predictButton(app, model),
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

async function predict(app: App, model: Model, trial: Trial, body: Blob, text?: string): Promise<void> {
  app.go(to(["models", model.name, "try"]), { isSame: true });
  const done = await app.act(nameOf(model), [], async () => {
    const answer = await app.api.upload<Answer>(modelPath(model.name, "/predict"), body);
    const picture = fileKind(model) === "image" ? await createImageBitmap(body) : null;
    const shown = text ?? (fileKind(model) === "text" ? await body.text() : undefined);
    Object.assign(trial, { body, answer, picture, text: shown, kept: null });
    return null;
  });
  if (!done) Object.assign(trial, { answer: null, picture: null });
  app.draw();
}

function trialAnswer(app: App, model: Model, trial: Trial): Child {
  const { answer, body, kept, text } = trial;
  if (answer === null || body === null) return null;
  const classes = likelyClassesOf(model);
  const choose = async (index: number, name: string): Promise<string> => {
    await keep(app, model, body, index);
    trial.kept = index;
    return `Saved as a sample labelled ${name}.`;
  };
  return answered(
    answer,
    classes.length > 0 && h("p", { class: "quiet" }, kept === null ? "Click the right class to save this as a training sample." : `Saved as a sample labelled ${classes[Number(kept)]}.`),
    predictedView(model, answer, { text, photo: trial.picture }),
    takeParts(app, model, answer, { name: `keep:${model.name}`, isTaken: kept !== null }, async (parts, what) => {
      await keep(app, model, body, parts);
      trial.kept = parts;
      return `Saved as a sample with these ${what}.`;
    }),
    answerView(app, answer, classes.length > 0 && kept === null ? { name: `keep:${model.name}`, chosen: null, stale: staleOf(model), choose } : null),
  );
}

async function keep(app: App, model: Model, body: Blob, label: unknown): Promise<void> {
  const path = modelPath(model.name, "/samples");
  if (body.type !== JSON_TYPE) await app.api.upload<Accepted>(withQuery(path, { label: typeof label === "object" ? JSON.stringify(label) : String(label) }), body);
  else await app.api.post<Accepted>(path, { ...(JSON.parse(await body.text()) as object), label });
}

function answered({ version }: Answer, ...children: Child[]): HTMLElement {
  return section(`Prediction of version ${version}`, { id: "answer" }, children);
}

/** What the version makes of a stored sample, beside the sample and its label. */
function storedAnswer(app: App, model: Model, id: number): HTMLElement {
  const [known, answer] = [sample(app, model, id), prediction(app, model, id)];
  if (known === null || answer === null) return section(`Sample ${id}`, { id: "answer" }, h("p", { class: "quiet" }, known ? "This sample cannot be predicted." : "Sample not found."));
  if (known === undefined || answer === undefined) return section(`Sample ${id}`, { id: "answer" }, loading());
  const choose = (index: number, name: string) => app.api.patch(modelPath(model.name, `/samples/${id}`), { label: index }).then(() => `Sample ${id} labelled ${name}.`);
  const { label } = known;
  const chosen = typeof label === "number" ? label : null;
  return answered(
    answer,
    h("p", { class: "quiet" }, `Sample ${id}: ${labelText(model, label)}`),
    h(
      "div",
      { class: "beside", "data-key": "sample" },
      h("div", { class: "tried" }, sampleView(app, model, known)),
      Array.isArray(label) && severalOf(model) === null && model.target.span_types === null && arrayView("label", label, model.target.num_classes),
      predictedView(model, answer, subjectOf(app, model, known)),
    ),
    takeParts(app, model, answer, { name: `label-stored:${id}`, isTaken: false }, async (parts, what) => {
      await app.api.patch(modelPath(model.name, `/samples/${id}`), { label: parts });
      return `Sample ${id} labelled with these ${what}.`;
    }),
    answerView(app, answer, likelyClassesOf(model).length > 0 ? { name: `label-stored:${id}`, chosen, stale: staleOf(model), choose } : null),
  );
}

/** Stored samples to pick from. */
function storedView(app: App, model: Model, id: number): HTMLElement {
  const wanted = app.draft(`stored:${model.name}`, () => ({ split: model.samples.validation > 0 ? "validation" : "" }));
  const path = withQuery(modelPath(model.name, "/samples"), { split: wanted.split || null });
  const pick = (split: string): void => {
    wanted.split = split;
    app.draw();
  };
  return section(
    "Stored samples",
    { id: "stored" },
    filters(choice("Split", wanted.split, SPLITS, pick)),
    pagesView(app, path, pagesOf<Sample>(app, path, STORED_SHOWN), "No samples.", (items) =>
      h("ul", { class: "picks", "aria-label": "Stored samples" }, items.map((each) => storedItem(app, model, each, each.id === id))),
    ),
  );
}

function storedItem(app: App, model: Model, each: Sample, isChosen: boolean): HTMLElement {
  const text = labelText(model, each.label);
  return h(
    "li",
    { "data-key": `stored-${each.id}` },
    h(
      "a",
      { class: "pick", href: to(["models", model.name, "try"], { sample: each.id }), "aria-current": isChosen ? "true" : null, "aria-label": `Try sample ${each.id}, ${text}` },
      sampleView(app, model, each),
      h("span", { class: "caption" }, h("span", { class: "label" }, text), h("span", { class: "quiet number" }, String(each.id))),
    ),
  );
}
