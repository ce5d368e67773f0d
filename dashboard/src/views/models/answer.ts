/** What a version predicts: probabilities of classes, a mask, spans, boxes, numbers, a score, or an embedding. */

import type { App } from "../../app/app";
import { type Box, isLikely, LEAST_SHOWN, takesBoxes } from "../../app/boxes";
import { numbersOf, sharesOf } from "../../app/labels";
import { classColour } from "../../app/masks";
import { fileKind, picture, rasterOf, texts } from "../../app/pictures";
import { staleOf } from "../../app/queries";
import type { Tensor } from "../../daemon/npz";
import type { Answer, Model, Sample } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { count, decimal, percent, plural } from "../../page/format";
import { badge, press } from "../parts/parts";
import { boxedView, tensorView } from "../samples/content";
import { marked } from "../samples/spans";

const BARS_SHOWN = 20;
const NUMBERS_SHOWN = 50;
const LINE_FROM = 12;

interface Bar {
  name: string;
  index: number;
  share: number;
}

/** What a person can do with a class that is right. */
export interface Choice {
  name: string;
  /** The class that was chosen. */
  chosen: number | null;
  stale: readonly string[];
  choose: (index: number, name: string) => Promise<string>;
}

/** Classes with their probabilities, or with their shares of a mask. choice: null if the label is no single class. */
export function answerView(app: App, { classes, predictions: [prediction] }: Answer, choice: Choice | null): Child {
  const { label, probabilities } = prediction ?? {};
  const nameOf = (index: number): string => classes?.[index] ?? String(index);
  if (Array.isArray(label)) {
    const shares = sharesOf(tensorOf(label).values).map(([index, share]) => ({ name: nameOf(index), index, share }));
    return barsView(app, "Share", shares, null);
  }
  if (!isList(probabilities)) return null;
  const bars = probabilities.map((share, index) => ({ name: nameOf(index), index, share: share ?? 0 }));
  return barsView(app, "Probability", bars.sort((a, b) => b.share - a.share), choice);
}

/** What was predicted about. */
export interface Subject {
  text?: string | undefined;
  photo?: ImageBitmap | null | undefined;
}

/** The same of a stored sample. */
export function subjectOf(app: App, model: Model, known: Sample): Subject {
  if (fileKind(model) === "text") return { text: texts(app, model.name, known.id)?.[0] };
  return takesBoxes(model) ? { photo: picture(app, model.name, known, true) } : {};
}

/** The predicted mask, spans, boxes, numbers, score or embedding; null for probabilities of classes. */
export function predictedView(model: Model, { predictions: [prediction] }: Answer, { text, photo }: Subject): Child {
  const { target } = model;
  const { label, probabilities, values, embedding, spans, boxes, score } = prediction ?? {};
  if (typeof score === "number") return scoreView(score, prediction?.threshold ?? null);
  if (boxes) {
    const shown = (boxes as Box[]).filter(isLikely);
    const [few, rest] = [plural(shown.length, "box", "boxes"), boxes.length - shown.length];
    const caption = `${few} predicted${rest > 0 ? `, and ${count(rest)} of less than ${percent(LEAST_SHOWN)}` : ""}`;
    return h("figure", { class: "tried", "data-key": "predicted" }, h("figcaption", { class: "quiet" }, caption), photo ? boxedView(model, photo, shown, { isNamed: true }) : null);
  }
  if (spans) {
    const shown = [h("figcaption", { class: "quiet" }, spans.length > 0 ? "predicted" : "no spans predicted"), h("p", { class: "spans", dir: "auto" }, marked(model, text ?? "", spans))];
    return h("figure", { class: "tried", "data-key": "predicted" }, shown);
  }
  if (Array.isArray(label)) return arrayView("predicted", label, target.num_classes);
  if (Array.isArray(embedding)) return arrayView("embedding", embedding, null);
  const named = numbersOf(values);
  if (named !== null) return h("dl", { class: "facts", "data-key": "predicted" }, named.map(([name, each]) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", { class: "number" }, each === null ? "–" : decimal(each)))));
  return isList(probabilities) ? null : arrayView("predicted", [values ?? probabilities].flat(), null);
}

/** threshold: null for a version that no job has made. */
function scoreView(score: number, threshold: number | null): HTMLElement {
  return h(
    "figure",
    { class: "tried", "data-key": "predicted" },
    h("figcaption", { class: "quiet" }, threshold === null ? "no threshold before a job has made a version" : score > threshold ? badge("held", "anomaly") : badge("latest", "normal")),
    h("p", { class: "number" }, `score ${decimal(score)}`, threshold !== null && `, threshold ${decimal(threshold)}`),
    threshold !== null && h("meter", { min: 0, max: 2 * threshold, high: threshold, optimum: 0, value: Math.min(score, 2 * threshold), "aria-label": "Score, up to twice the threshold" }),
  );
}

/** The button that makes the predicted spans or boxes a label; null for other predictions. */
export function takeParts(app: App, model: Model, { predictions: [prediction] }: Answer, { name, isTaken }: { name: string; isTaken: boolean }, take: (label: unknown, what: string) => Promise<string>): Child {
  const { spans, boxes } = prediction ?? {};
  const [label, what] = boxes ? [{ boxes: (boxes as Box[]).filter(isLikely).map(({ box, label: of }) => ({ box, label: of })) }, "boxes"] : [spans?.map(({ start, end, label: of }) => ({ start, end, label: of })), "spans"];
  return label === undefined ? null : press(app, { name, label: `These ${what} are right`, stale: staleOf(model), disabled: isTaken, run: () => take(label, what) });
}

function isList(value: unknown): value is (number | null)[] {
  return Array.isArray(value) && !Array.isArray(value[0]);
}

/** Nested lists; null, which stands for numbers that JSON lacks, becomes NaN. */
function tensorOf(nested: unknown[]): Tensor {
  const shape: number[] = [];
  for (let each: unknown = nested; Array.isArray(each); each = each[0]) shape.push(each.length);
  return { shape, values: (nested.flat(Infinity) as (number | null)[]).map((value) => value ?? NaN) };
}

/** A mask in the colours of its classes; numbers as a picture, or as a line and in words. */
export function arrayView(name: string, nested: unknown[], classes: number | null): Child {
  const { shape, values } = tensorOf(nested);
  const isMask = classes !== null && shape.length === 2;
  const picture = isMask ? [3, ...shape] : shape;
  const shown = { shape: [1, ...picture], values: isMask ? [0, 1, 2].flatMap((part) => values.map((value) => (classColour(value)[part] ?? 0) / 255)) : values };
  const isPicture = rasterOf(picture) !== null;
  return h(
    "figure",
    { class: "tried", "data-key": name },
    h("figcaption", { class: "quiet" }, name),
    (isPicture || values.length >= LINE_FROM) && tensorView(name, shown),
    !isPicture && h("p", { class: "number" }, values.slice(0, NUMBERS_SHOWN).map((each) => decimal(each)).join("  "), values.length > NUMBERS_SHOWN && " …"),
  );
}

function barsView(app: App, meaning: string, bars: Bar[], choice: Choice | null): Child {
  const rows = (some: Bar[]): HTMLElement => h("ul", { class: "bars" }, some.map((bar) => barRow(app, meaning, bar, choice)));
  const rest = bars.slice(BARS_SHOWN);
  return [
    rows(bars.slice(0, BARS_SHOWN)),
    rest.length > 0 && h("details", { "data-key": "rest" }, h("summary", {}, `${plural(rest.length, "more class", "more classes")} of ${count(bars.length)}`), rows(rest)),
  ];
}

function barRow(app: App, meaning: string, { name, index, share }: Bar, choice: Choice | null): HTMLElement {
  return h(
    "li",
    { "data-key": name },
    choice === null
      ? h("span", {}, name)
      : press(app, {
          name: `${choice.name}:${index}`,
          label: name,
          about: "is right",
          stale: choice.stale,
          disabled: choice.chosen === index,
          run: () => choice.choose(index, name),
        }),
    h("span", { class: "number" }, percent(share)),
    h("meter", { min: 0, max: 1, value: share, "aria-label": `${meaning} of ${name}` }),
  );
}
