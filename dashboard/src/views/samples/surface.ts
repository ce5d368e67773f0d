/** A photo that is drawn on: layers over each other, and the pointer in the photo's own pixels. */

import type { Point } from "../../app/masks";
import { type Attributes, type Child, h, s } from "../../page/dom";

const REACH = 8;

export interface Drawing {
  /** reach: how near to something a finger is at it, in the same pixels. */
  begin: (at: Point, reach: number, isShifted: boolean) => void;
  move: (at: Point) => void;
  end: () => void;
}

/** layers: below what is drawn. marks: SVG over them, in the photo's own pixels. */
export function surface({ width, height }: { width: number; height: number }, layers: Child[], marks: Child[], drawing: Drawing, attributes: Attributes): HTMLElement {
  const handlers = {
    onpointerdown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      const drawn = event.currentTarget as SVGSVGElement;
      drawn.setPointerCapture(event.pointerId);
      drawing.begin(placeOf(event), REACH / (drawn.getScreenCTM()?.a ?? 1), event.shiftKey);
    },
    onpointermove: (event: PointerEvent) => {
      if ((event.currentTarget as SVGSVGElement).hasPointerCapture(event.pointerId)) drawing.move(placeOf(event));
    },
    onlostpointercapture: () => drawing.end(),
  };
  return h(
    "div",
    { class: "surface", "data-key": "surface" },
    layers,
    s("svg", { class: "marks", viewBox: `0 0 ${width} ${height}`, "data-key": "marks", ...handlers, ...attributes }, marks),
  );
}

function placeOf(event: PointerEvent): Point {
  const shown = (event.currentTarget as SVGSVGElement).getScreenCTM();
  const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(shown?.inverse());
  return { x, y };
}
