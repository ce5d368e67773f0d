/** A mask of a photo, corrected with a brush: by the pointer, or by the arrow keys and the space bar. */

import type { App } from "../../app/app";
import { copied, emptyMask, isMask, type Mask, mask, paintLine, paintText, type Point, takesMasks, UNCOUNTED } from "../../app/masks";
import { photo } from "../../app/pictures";
import { grayPng } from "../../app/png";
import { label } from "../../app/labelling";
import { type Listed, workOf } from "../../app/samples";
import type { Model } from "../../daemon/types";
import { type Child, element, h, s } from "../../page/dom";
import { canvasOf } from "./content";
import { surface } from "./surface";

const MASK_ID = "brush-mask";
export const CLASS_KEYS = "123456789";
/** Of the brush, as a share of the photo's width. */
const WIDTHS = [0.01, 0.03, 0.1] as const;
const WIDTH_NAMES = ["Thin", "Medium", "Broad"];
export const MOVES: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The stored mask as a label, null for none; undefined until it is painted on. */
type Kept = Promise<{ png: string }> | null | undefined;

interface Brush extends Record<string, unknown> {
  sample: number | null;
  /** What the mask is a copy of, null for none. */
  source: Mask | null;
  mask: Mask | null;
  kept: Kept;
  /** Strokes that are not stored yet. */
  unsaved: number;
  value: number;
  width: number;
  at: Point;
}

/** The photo of the sample that has the focus, with its mask, on which one paints. */
export function brushView(app: App, model: Model, listed: Listed | null | undefined): Child {
  const { active } = workOf(app, model.name);
  const known = listed?.items.find(({ id }) => id === active);
  if (!takesMasks(model) || known === undefined) return null;
  const { id, label: value } = known;
  const shown = photo(app, model.name, id);
  const stored = isMask(value) ? mask(app, model.name, id, value) : null;
  const begin = (): Brush => ({ sample: null, source: null, mask: null, kept: null, unsaved: 0, value: 1, width: 1, at: { x: 0, y: 0 } });
  const brush = app.draft<Brush>(`brush:${model.name}`, begin);
  const isNew = brush.sample !== id;
  if (shown && stored !== undefined && (isNew || (stored !== brush.source && brush.unsaved === 0))) {
    const { width, height } = shown;
    const begun = stored === null ? emptyMask(shown) : copied(stored);
    Object.assign(brush, { sample: id, source: stored, mask: begun, kept: stored === null ? null : undefined });
    if (isNew) brush.at = { x: width / 2, y: height / 2 };
  }
  if (!shown || brush.sample !== id || brush.mask === null) return null;
  const press = (event: KeyboardEvent): void => {
    const at = CLASS_KEYS.indexOf(event.key);
    if (at < 0 || at >= (model.target.num_classes ?? 0)) return;
    brush.value = at;
    app.draw();
  };
  return h("div", { class: "labelling", "data-key": `brush-${id}`, role: "group", "aria-label": `Mask of sample ${id}`, onkeydown: press }, paintedOn(app, model, brush, shown), tools(app, model, brush));
}

function paintedOn(app: App, model: Model, brush: Brush, shown: ImageBitmap): HTMLElement {
  const radius = Math.max(0.5, ((WIDTHS[brush.width] ?? 0) * shown.width) / 2);
  const paint = (to: Point): void => {
    if (brush.mask === null) return;
    const changed = paintLine(brush.mask, brush.at, to, radius, brush.value);
    element(MASK_ID, HTMLCanvasElement).getContext("2d")?.putImageData(brush.mask.painted, 0, 0, ...changed);
    brush.at = to;
  };
  const drawing = {
    begin: (at: Point) => {
      if (brush.kept === undefined && brush.mask !== null) brush.kept = written(brush.mask);
      brush.unsaved += 1;
      brush.at = at;
      paint(at);
    },
    move: paint,
    end: () => void save(app, model, brush),
  };
  const press = (event: KeyboardEvent): void => {
    const move = MOVES[event.key];
    const { x, y } = brush.at;
    if (move) brush.at = { x: Math.min(shown.width, Math.max(0, x + move[0] * radius)), y: Math.min(shown.height, Math.max(0, y + move[1] * radius)) };
    else if (event.key === " ") {
      drawing.begin(brush.at);
      drawing.end();
    } else return;
    event.preventDefault();
    app.draw();
  };
  const where = s("circle", { cx: brush.at.x, cy: brush.at.y, r: radius, class: "brush" });
  return surface(shown, [canvasOf(shown), canvasOf(brush.mask?.painted ?? null, MASK_ID)], [where], drawing, {
    tabindex: 0,
    role: "application",
    "aria-label": `Photo of sample ${brush.sample}: arrows move the brush, space paints`,
    onkeydown: press,
  });
}

function tools(app: App, model: Model, brush: Brush): HTMLElement {
  const count = model.target.num_classes ?? 0;
  const values = [...Array.from({ length: count }, (_, index) => index), UNCOUNTED];
  const nameOf = (value: number): string => (value === UNCOUNTED ? "does not count" : (model.target.classes?.[value] ?? String(value)));
  const choose = (change: Partial<Brush>): void => {
    Object.assign(brush, change);
    app.draw();
  };
  return h(
    "div",
    { class: "toolbar" },
    h("span", { class: "quiet" }, "Paint over the photo with:"),
    values.map((value) => h("button", { type: "button", "data-key": `value-${value}`, "aria-pressed": String(brush.value === value), onclick: () => choose({ value }) }, value < CLASS_KEYS.length ? h("kbd", {}, String(value + 1)) : null, swatch(value), ` ${nameOf(value)}`)),
    WIDTH_NAMES.map((name, width) => h("button", { type: "button", "data-key": name, "aria-pressed": String(brush.width === width), onclick: () => choose({ width }) }, name)),
  );
}

/** The colour of a class. */
export function swatch(value: number): SVGElement {
  return s("svg", { class: "swatch", viewBox: "0 0 1 1", "aria-hidden": "true" }, s("rect", { width: 1, height: 1, fill: paintText(value) }));
}

/** Stores the mask as it is now. */
async function save(app: App, model: Model, brush: Brush): Promise<void> {
  const { sample, mask: painted, kept } = brush;
  if (sample === null || painted === null) return;
  const now = (brush.kept = written(painted));
  await label(app, model, [sample], await now, await kept);
  brush.unsaved -= 1;
  // What was refused is taken back.
  if (app.state.results.has(`label:${model.name}`)) brush.sample = null;
  app.draw();
}

async function written({ values, painted }: Mask): Promise<{ png: string }> {
  const bytes = new Uint8Array(await (await grayPng(values, painted.width)).arrayBuffer());
  return { png: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) };
}
