/** Boxes on photos: labels, predictions, and what sets two predictions apart. */

import type { Model } from "../daemon/types";

/** x, y, width and height in the photo's own pixels. */
export type Sides = [number, number, number, number];

export interface Box {
  box: Sides;
  label: string | number;
  probability?: number | null;
}

/** How much two boxes share of what they cover if they are of the same thing. */
const LEAST_OVERLAP = 0.5;
/** The least probability of a predicted box that is shown. */
export const LEAST_SHOWN = 0.3;

export function takesBoxes(model: Model): boolean {
  return model.target.box_classes !== null;
}

/** null if a label is none of boxes. */
export function boxesOf(label: unknown): Box[] | null {
  return typeof label === "object" && label !== null && "boxes" in label && Array.isArray(label.boxes) ? (label.boxes as Box[]) : null;
}

/** Names of classes, or their numbers, as labels have them. */
export function boxClasses({ target: { classes, box_classes: count } }: Model): (string | number)[] {
  return classes ?? Array.from({ length: count ?? 0 }, (_, index) => index);
}

/** Whether a predicted box is shown. */
export function isLikely({ probability }: Box): boolean {
  return (probability ?? 1) >= LEAST_SHOWN;
}

/** The boxes that have none like them among others. */
export function without(boxes: readonly Box[], others: readonly Box[]): Box[] {
  return boxes.filter(({ box, label }) => !others.some((other) => other.label === label && overlap(box, other.box) >= LEAST_OVERLAP));
}

/** Intersection over union. */
function overlap([x, y, width, height]: Sides, [ox, oy, otherWidth, otherHeight]: Sides): number {
  const across = Math.max(0, Math.min(x + width, ox + otherWidth) - Math.max(x, ox));
  const down = Math.max(0, Math.min(y + height, oy + otherHeight) - Math.max(y, oy));
  return (across * down) / (width * height + otherWidth * otherHeight - across * down);
}
