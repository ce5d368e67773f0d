/** Labels in words, and the classes that a label can be. */

import { taskOf } from "../daemon/tasks";
import { boxesOf } from "./boxes";
import { isMask } from "./masks";
import type { Model } from "../daemon/types";
import { decimal } from "../page/format";

const NUMBERS_SHOWN = 6;
/** From which number on a sample has one of several labels. */
const LEAST_YES = 0.5;

/** The classes that a sample's label can be, by index; empty if labels are not single classes. */
export function classesOf({ target: { classes, num_classes: count, shape } }: Model): string[] {
  if (count === null || shape.length > 0) return [];
  return classes ?? Array.from({ length: count }, (_, index) => String(index));
}

/** The same if predictions have a probability of each, else empty. */
export function likelyClassesOf(model: Model): string[] {
  return taskOf(model.loss)?.hasClasses === true ? classesOf(model) : [];
}

/** The names of several labels, of which a sample has any; null if labels are something else. */
export function severalOf({ loss, target: { classes } }: Model): string[] | null {
  return taskOf(loss)?.namesSeveral === true ? classes : null;
}

/** The names of a label's numbers; empty without. */
export function numberNamesOf({ loss, target: { classes, dtype, box_classes: boxes } }: Model): string[] {
  return dtype === "float32" && boxes === null && taskOf(loss)?.namesSeveral !== true ? (classes ?? []) : [];
}

/** Numbers by name, as labels and predictions of a model that names its outputs have them; null for anything else. */
export function numbersOf(value: unknown): [string, number | null][] | null {
  if (typeof value !== "object" || value === null || Array.isArray(value) || isMask(value) || boxesOf(value) !== null) return null;
  return Object.entries(value as Record<string, number | null>);
}

/** The names that a sample's label can be given by; empty if labels are numbers or positions. */
export function namesOf(model: Model): string[] {
  return severalOf(model) ?? (model.target.classes === null ? [] : classesOf(model));
}

const written = new WeakMap<object, string>();

/** A class, the names of several, a few numbers, with their names if they have some, the classes that a mask contains, those of spans or boxes, or the size of a larger array. */
export function labelText(model: Model, value: unknown): string {
  if (value === undefined) return "–";
  if (value === null) return "no label";
  if (isMask(value)) return `mask ${value.size[1]}\u00d7${value.size[0]}`;
  const boxes = boxesOf(value);
  if (boxes !== null) return countsText(boxes) || "no boxes";
  const named = numbersOf(value);
  if (named !== null) return named.map(([name, each]) => `${name} ${each === null ? "?" : decimal(each)}`).join(", ");
  if (!Array.isArray(value)) return model.target.classes?.[Number(value)] ?? String(value);
  const text = written.get(value) ?? (model.target.span_types === null ? arrayText(model, value.flat(Infinity) as number[]) : countsText(value) || "no spans");
  written.set(value, text);
  return text;
}

/** The labels, each once, with how often there is one. */
function countsText(parts: readonly { label: string | number }[]): string {
  const counts = new Map<string | number, number>();
  for (const { label } of parts) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts].map(([label, count]) => (count === 1 ? label : `${label} \u00d7${count}`)).join(", ");
}

function arrayText(model: Model, numbers: number[]): string {
  const { target } = model;
  const several = severalOf(model);
  if (several !== null) return several.filter((_, index) => (numbers[index] ?? 0) >= LEAST_YES).join(", ") || "none";
  if (target.num_classes !== null) return sharesOf(numbers).map(([index]) => target.classes?.[index] ?? String(index)).join(", ");
  return numbers.length <= NUMBERS_SHOWN ? numbers.map((each) => decimal(each)).join("  ") : `${target.shape.join("×")} numbers`;
}

/** Class indices with the share of positions that have them, the most frequent first. */
export function sharesOf(indices: readonly number[]): [number, number][] {
  const counts = new Map<number, number>();
  for (const index of indices) counts.set(index, (counts.get(index) ?? 0) + 1);
  return [...counts].map(([index, count]): [number, number] => [index, count / indices.length]).sort((a, b) => b[1] - a[1]);
}
