/** A photo that is drawn on: layers over each other, and the pointer in the photo's own pixels. */

import type { Point } from "../../app/masks";
import { type Attributes, type Child, h, s } from "../../page/dom";

export interface Drawing {
  /** target: the mark that was pressed, or the whole. */
  begin: (at: Point, target: Element) => void;
  move: (at: Point) => void;
  end: () => void;
}

/** layers: below what is drawn. marks: SVG over them, in the photo's own pixels. */
export function surface({ width, height }: { width: number; height: number }, layers: Child[], marks: Child[], drawing: Drawing, attributes: Attributes): HTMLElement {
  const handlers = {
    onpointerdown: (event: PointerEvent) => {
      if (event.button !== 0) return;
      (event.currentTarget as SVGSVGElement).setPointerCapture(event.pointerId);
      drawing.begin(placeOf(event), event.target as Element);
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
