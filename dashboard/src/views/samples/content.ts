/** The content of a sample for people. */

import type { App } from "../../app/app";
import { type Box, boxClasses, boxesOf } from "../../app/boxes";
import { isMask, mask, overlaid, paintText } from "../../app/masks";
import { content, fileKind, ownSize, picture, pixelsOf, rasterOf, showsPictures, sound, texts } from "../../app/pictures";
import type { Tensor } from "../../daemon/npz";
import type { Model, Sample } from "../../daemon/types";
import { type Attributes, type Child, h, s } from "../../page/dom";
import { decimal, percent } from "../../page/format";
import { linear } from "../../page/scale";
import { sparkline } from "../parts/spark";
import { marked, spansOf } from "./spans";

const VALUES_SHOWN = 6;
const CHARACTERS_SHOWN = 300;
const SERIES_FROM = 12;
const LINE_DOTS = 96;
/** Pictures this small are enlarged without smoothing. */
const PIXELS_TO = 64;

type Shown = Pick<Sample, "id" | "size_bytes"> & Partial<Pick<Sample, "label">>;

const painted = new WeakMap<HTMLCanvasElement, ImageBitmap | ImageData>();

/** A sample as a picture, as a line, as its words, or as its values. */
export function sampleView(app: App, model: Model, sample: Shown): Child {
  if (fileKind(model) === "image") return pictureView(app, model, sample);
  if (fileKind(model) === "audio") return soundView(app, model, sample.id);
  if (fileKind(model) === "text") return textView(app, model, sample);
  return showsPictures(model) ? tensorPicture(app, model, sample.id) : valuesView(app, model, sample.id);
}

export function canvasOf(shown: ImageBitmap | ImageData | null, id: string | null = null): HTMLElement {
  const draw = (canvas: HTMLCanvasElement): void => {
    if (!shown || painted.get(canvas) === shown) return;
    painted.set(canvas, shown);
    const context = canvas.getContext("2d");
    if (shown instanceof ImageData) context?.putImageData(shown, 0, 0);
    else context?.drawImage(shown, 0, 0);
  };
  return h("canvas", { id, class: `picture ${shown && shown.height <= PIXELS_TO ? "pixels" : ""}`, "aria-hidden": "true", width: shown?.width ?? 1, height: shown?.height ?? 1, onpaint: draw });
}

function tensorPicture(app: App, model: Model, id: number): HTMLElement {
  const [input] = model.inputs;
  const tensor = content(app, model.name, id)?.get(input?.name ?? "");
  return canvasOf(tensor && input ? pixelsOf(tensor, input.shape) : null);
}

function pictureView(app: App, model: Model, sample: Shown): HTMLElement {
  const { id, label } = sample;
  const boxes = boxesOf(label);
  const shown = picture(app, model.name, sample, boxes !== null);
  if (shown === null) return h("span", { class: "picture quiet" }, "cannot be decoded");
  if (shown && boxes !== null) return boxedView(model, shown, boxes);
  const over = shown && isMask(label) ? mask(app, model.name, id, label) : undefined;
  return canvasOf(shown && over ? overlaid(shown, over.painted) : (shown ?? null));
}

/** A photo with boxes over it. kinds: CSS classes of some. */
export function boxedView(model: Model, shown: ImageBitmap, boxes: readonly Box[], { isNamed = false, kinds = new Map<Box, string>() } = {}): HTMLElement {
  const { width, height } = ownSize(shown);
  const marks = boxes.map((each) => boxMark(model, each, isNamed ? height : null, { class: kinds.get(each) ?? "" }));
  return h("span", { class: "boxed" }, canvasOf(shown), s("svg", { class: "picture", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" }, marks));
}

/** A box in the colour of its class. height: of the photo, if the class is to be named. */
export function boxMark(model: Model, { box: [x, y, width, height], label, probability }: Box, named: number | null, attributes: Attributes = {}): SVGElement {
  const stroke = paintText(boxClasses(model).indexOf(label) + 1);
  const text = `${label}${typeof probability === "number" ? ` ${percent(probability)}` : ""}`;
  return s(
    "g",
    { ...attributes, class: `box ${attributes.class ?? ""}` },
    s("rect", { x, y, width, height, stroke }),
    named !== null && s("text", { x, y: y - named / 80, "font-size": named / 20 }, text),
  );
}

/** How loud a recording is over time, and its length. */
function soundView(app: App, model: Model, id: number): Child {
  const known = sound(app, model.name, id);
  if (!known) return h("span", { class: "quiet" }, known === null ? "cannot be decoded" : "");
  const values = known.getChannelData(0);
  const length = Math.max(1, Math.floor(values.length / LINE_DOTS));
  const loudest = Array.from({ length: Math.ceil(values.length / length) }, (_, at) =>
    values.subarray(at * length, (at + 1) * length).reduce((most, value) => Math.max(most, Math.abs(value)), 0),
  );
  const seconds = `${decimal(known.duration)} s`;
  return h("span", { class: "sound" }, sparkline(loudest, `Loudness over ${seconds}`), h("span", { class: "quiet number" }, seconds));
}

/** The beginning of a text, or of each of a pair, with the spans that are its label. */
function textView(app: App, model: Model, { id, label }: Shown): HTMLElement {
  const known = texts(app, model.name, id) ?? [];
  const shown = known.map((each) => (each.length > CHARACTERS_SHOWN ? `${each.slice(0, CHARACTERS_SHOWN)} …` : each));
  return h("span", { class: "words", title: shown.join("\n") }, shown.map((each) => h("span", { dir: "auto" }, marked(model, each, spansOf(model, label) ?? []))));
}

function valuesView(app: App, model: Model, id: number): Child {
  const inputs = content(app, model.name, id);
  const known = model.inputs.flatMap(({ name }) => {
    const tensor = inputs?.get(name);
    return tensor ? [{ name, tensor }] : [];
  });
  return h(
    "span",
    { class: "tensor number" },
    known.map(({ name, tensor }) => tensorView(name, tensor)),
  );
}

/** A tensor as a picture, as a line or as its values. Its first axis is the batch. */
export function tensorView(name: string, tensor: Tensor): Child {
  const shape = tensor.shape.slice(1);
  if (rasterOf(shape) !== null) return canvasOf(pixelsOf(tensor, shape));
  return tensor.values.length >= SERIES_FROM ? series(name, tensor) : text(tensor);
}

function text({ values }: Tensor): Child {
  const shown = values.slice(0, VALUES_SHOWN).map((each) => decimal(each)).join("  ");
  return `${shown}${values.length > VALUES_SHOWN ? " …" : ""}`;
}

/** A sequence of numbers as a line; of several channels the first. */
function series(name: string, { shape, values }: Tensor): Child {
  const inner = shape.length > 2 ? (shape.at(-1) ?? 1) : 1;
  const one = values.filter((_, index) => index % inner === 0);
  const at = linear({ low: 0, high: LINE_DOTS - 1 }, { low: 0, high: one.length - 1 });
  const shown = one.length > LINE_DOTS ? Array.from({ length: LINE_DOTS }, (_, index) => one[Math.round(at(index))] ?? 0) : one;
  return sparkline(shown, `${name}: ${one.length} values`);
}
