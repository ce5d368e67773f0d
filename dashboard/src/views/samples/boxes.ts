/** Boxes on the photo of a sample: drawn, moved and resized by the pointer or by keys, and given classes. */

import type { App } from "../../app/app";
import { type Box, boxClasses, boxesOf, type Sides, takesBoxes } from "../../app/boxes";
import type { Point } from "../../app/masks";
import { photo, type Size } from "../../app/pictures";
import { label } from "../../app/labelling";
import { type Listed, workOf } from "../../app/samples";
import type { Model, Sample } from "../../daemon/types";
import { type Child, h, s } from "../../page/dom";
import { opener } from "../parts/parts";
import { CLASS_KEYS, MOVES, swatch } from "./brush";
import { boxMark, canvasOf } from "./content";
import { surface } from "./surface";

/** How many hundredths of a pixel a side has. */
const PARTS = 100;
/** Keys move by this share of the photo. */
const KEY_SHARE = 0.01;
/** Left, top, right and bottom; whether each follows the pointer. */
type Edges = readonly [number, number, number, number];
const WHOLE: Edges = [1, 1, 1, 1];
const CORNERS: readonly Edges[] = [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]];

interface Draft extends Record<string, unknown> {
  sample: number | null;
  /** Boxes that are not stored yet, null if those that are shown are. */
  boxes: Box[] | null;
  /** The place of the box that keys and buttons are about. */
  chosen: number | null;
  /** The class of new boxes. */
  value: number;
  /** What the pointer holds. */
  grip: { edges: Edges; from: Point; before: Sides; isNew: boolean } | null;
}

/** The photo of the sample that has the focus, with its boxes. */
export function boxesView(app: App, model: Model, listed: Listed | null | undefined): Child {
  const { active } = workOf(app, model.name);
  const known = listed?.items.find(({ id }) => id === active);
  if (!takesBoxes(model) || known === undefined) return null;
  const shown = photo(app, model.name, known.id);
  if (!shown) return null;
  const draft = app.draft<Draft>(`boxes:${model.name}`, () => ({ sample: null, boxes: null, chosen: null, value: 0, grip: null }));
  if (draft.sample !== known.id) Object.assign(draft, { sample: known.id, boxes: null, chosen: null, grip: null });
  const editor = new Editor(app, model, draft, shown, known);
  return h(
    "div",
    { class: "labelling", "data-key": `boxes-${known.id}`, role: "group", "aria-label": `Boxes of sample ${known.id}`, onkeydown: (event: KeyboardEvent) => editor.press(event) },
    surface(shown, [canvasOf(shown)], [editor.boxes.map((each, at) => editor.mark(each, at)), editor.handles()], editor, { tabindex: -1, role: "group", "aria-label": `Photo of sample ${known.id}` }),
    editor.tools(),
  );
}

class Editor {
  constructor(
    private readonly app: App,
    private readonly model: Model,
    private readonly draft: Draft,
    private readonly size: Size,
    private readonly known: Sample,
  ) {}

  /** As they are now: keys are pressed faster than frames are drawn. */
  get boxes(): Box[] {
    return this.draft.boxes ?? boxesOf(this.known.label) ?? [];
  }

  /** The corner of the chosen box, the smallest box there, or else a new one. */
  begin(at: Point, reach: number, isShifted: boolean): void {
    const { draft, boxes } = this;
    const held = draft.chosen === null ? undefined : boxes[draft.chosen];
    const edges = held && CORNERS.find((each) => Math.hypot(cornerOf(held.box, each).x - at.x, cornerOf(held.box, each).y - at.y) <= reach);
    if (held && edges) {
      draft.grip = { edges, from: at, before: held.box, isNew: false };
      return;
    }
    const areaAt = (place: number): number => (boxes[place]?.box[2] ?? 0) * (boxes[place]?.box[3] ?? 0);
    const there = boxes.flatMap(({ box }, place) => (contains(box, at) ? [place] : [])).sort((one, other) => areaAt(one) - areaAt(other));
    const [nearest] = isShifted ? [] : there;
    if (nearest === undefined) {
      draft.boxes = [...boxes, { box: [at.x, at.y, 0, 0], label: this.nameOf(draft.value) }];
      draft.chosen = boxes.length;
    } else draft.chosen = nearest;
    const before = this.boxes[draft.chosen]?.box ?? [at.x, at.y, 0, 0];
    draft.grip = { edges: nearest === undefined ? [0, 0, 1, 1] : WHOLE, from: at, before, isNew: nearest === undefined };
    this.app.draw();
  }

  move(at: Point): void {
    const { draft } = this;
    if (draft.grip === null || draft.chosen === null) return;
    const { edges, from, before } = draft.grip;
    this.change(draft.chosen, { box: this.moved(before, edges, at.x - from.x, at.y - from.y) });
  }

  end(): void {
    const { draft } = this;
    const { isNew } = draft.grip ?? { isNew: false };
    const [, , width, height] = (draft.chosen === null ? undefined : draft.boxes?.[draft.chosen]?.box) ?? [0, 0, 0, 0];
    draft.grip = null;
    if (draft.boxes === null) return;
    if (width > 0 && height > 0) void this.save(draft.boxes);
    else {
      // A press without a drag draws nothing.
      draft.boxes = null;
      if (isNew) draft.chosen = null;
      this.app.draw();
    }
  }

  /** Arrows move, with Shift resize; digits give a class, Delete removes. */
  press(event: KeyboardEvent): void {
    const { draft, boxes } = this;
    const held = draft.chosen === null ? undefined : boxes[draft.chosen];
    const move = MOVES[event.key];
    const at = CLASS_KEYS.indexOf(event.key);
    if (at >= 0 && at < boxClasses(this.model).length) this.choose(at);
    else if (held === undefined || draft.chosen === null) return;
    else if (event.key === "Delete") this.remove();
    else if (move) {
      const step = event.ctrlKey ? 1 : KEY_SHARE * this.size.width;
      this.change(draft.chosen, { box: this.moved(held.box, event.shiftKey ? [0, 0, 1, 1] : WHOLE, move[0] * step, move[1] * step) });
      void this.save(this.boxes);
    } else return;
    event.preventDefault();
  }

  mark(box: Box, at: number): SVGElement {
    const { draft, app } = this;
    const isChosen = draft.chosen === at;
    const choose = (): void => {
      draft.chosen = at;
      app.draw();
    };
    return boxMark(this.model, box, this.size.height, {
      class: isChosen ? "chosen" : "",
      "data-key": `box-${at}`,
      tabindex: 0,
      role: "button",
      "aria-pressed": String(isChosen),
      "aria-label": `${box.label} at ${box.box.slice(0, 2).join(", ")}, ${box.box.slice(2).join(" by ")}`,
      onfocus: isChosen ? () => undefined : choose,
    });
  }

  /** The corners of the chosen box. */
  handles(): Child {
    const held = this.draft.chosen === null ? undefined : this.boxes[this.draft.chosen];
    if (held === undefined) return null;
    return CORNERS.map((edges) => {
      const { x, y } = cornerOf(held.box, edges);
      return s("circle", { class: "handle", cx: x, cy: y, r: Math.max(this.size.width, this.size.height) / 100 });
    });
  }

  tools(): HTMLElement {
    const { app, draft, boxes, size, model } = this;
    const isBusy = app.state.pending.has(`label:${model.name}`) || app.state.connection === "lost";
    const add = (): void => {
      const { width, height } = size;
      draft.chosen = boxes.length;
      void this.save([...boxes, { box: [width / 4, height / 4, width / 2, height / 2], label: this.nameOf(draft.value) }]);
    };
    return h(
      "div",
      { class: "toolbar" },
      h("span", { class: "quiet" }, "Drag to draw a box, or to move one or its corners; with Shift, over another."),
      boxClasses(model).map((name, at) =>
        h(
          "button",
          { type: "button", "data-key": `class-${at}`, "aria-pressed": String(draft.value === at), onclick: () => this.choose(at) },
          at < CLASS_KEYS.length ? h("kbd", {}, CLASS_KEYS[at] ?? "") : null,
          swatch(at + 1),
          ` ${name}`,
        ),
      ),
      opener("add", "Add a box", add),
      h("button", { type: "button", "data-key": "remove", disabled: isBusy || draft.chosen === null, onclick: () => this.remove() }, "Remove box"),
      h("button", { type: "button", "data-key": "none", disabled: isBusy, onclick: () => void this.save([]) }, "No boxes"),
    );
  }

  private nameOf(value: number): string | number {
    return boxClasses(this.model)[value] ?? 0;
  }

  /** The class of new boxes, and of the chosen one. */
  private choose(value: number): void {
    const { draft } = this;
    draft.value = value;
    if (draft.chosen !== null && this.boxes[draft.chosen]) {
      this.change(draft.chosen, { label: this.nameOf(value) });
      void this.save(this.boxes);
    } else this.app.draw();
  }

  private remove(): void {
    const { draft } = this;
    const left = this.boxes.filter((_, at) => at !== draft.chosen);
    draft.chosen = null;
    void this.save(left);
  }

  private change(place: number, change: Partial<Box>): void {
    this.draft.boxes = this.boxes.map((each, at) => (at === place ? { ...each, ...change } : each));
    this.app.draw();
  }

  /** The sides once these edges have moved, within the photo. */
  private moved([x, y, width, height]: Sides, edges: Edges, right: number, down: number): Sides {
    const ends = [[x, x + width, right, edges[0], edges[2], this.size.width], [y, y + height, down, edges[1], edges[3], this.size.height]] as const;
    const [across, along] = ends.map(([low, high, by, isLow, isHigh, most]) => {
      const least = isLow && isHigh ? Math.min(most - high, Math.max(-low, by)) : by;
      const both = [low + isLow * least, high + isHigh * least].map((end) => Math.round(Math.min(most, Math.max(0, end)) * PARTS) / PARTS);
      return [Math.min(...both), Math.max(...both)] as const;
    }) as [readonly [number, number], readonly [number, number]];
    const side = ([low, high]: readonly [number, number]): number => Math.round((high - low) * PARTS) / PARTS;
    return [across[0], along[0], side(across), side(along)];
  }

  /** Shows them at once, and what the daemon has made of them then. */
  private async save(boxes: Box[]): Promise<void> {
    const { app, draft, model } = this;
    if (draft.sample === null) return;
    draft.boxes = boxes;
    await label(app, model, [draft.sample], { boxes: boxes.map(({ box, label: name }) => ({ box, label: name })) });
    if (draft.boxes === boxes) draft.boxes = null;
    app.draw();
  }
}

function cornerOf([x, y, width, height]: Sides, [left, top]: Edges): Point {
  return { x: left ? x : x + width, y: top ? y : y + height };
}

function contains([x, y, width, height]: Sides, at: Point): boolean {
  return at.x >= x && at.x <= x + width && at.y >= y && at.y <= y + height;
}
