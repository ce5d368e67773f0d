/** The axes of a chart, and its pointer. */

import type { App } from "../../app/app";
import { type Attributes, s } from "../../page/dom";
import { count, distinct } from "../../page/format";
import { type Dot, linear, logarithmic, powers, type Range, ticks } from "../../page/scale";

export const HEIGHT = 240;
export const MARGIN = { top: 22, right: 16, bottom: 28, left: 60 };
/** A larger ratio of maximum to minimum is drawn on a logarithmic scale. */
const LOG_FROM = 50;
/** A number under the axis this near to the edge would be cut off. */
const EDGE = 30;

export interface Axes {
  name: string;
  most: number;
  xName: string;
  first: number;
  show: (value: number, more?: number) => string;
}

export interface Frame extends Pick<Axes, "xName" | "show"> {
  width: number;
  x: (step: number) => number;
  y: (value: number) => number;
  steps: Range;
  yTicks: number[];
  yName: string;
}

/** most: the maximum that a value can have. xName: of the steps, which begin at `first`. */
export function frameOf(width: number, dots: Dot[], { name, most, xName, first, show }: Axes): Frame {
  const steps = { low: first, high: dots.reduce((most, dot) => Math.max(most, dot.step), first + 1) };
  const x = linear(steps, { low: MARGIN.left, high: width - MARGIN.right });
  return { width, x, steps, xName, show, ...yAxis(dots.map((dot) => dot.value), name, most) };
}

function yAxis(values: number[], name: string, most: number): Pick<Frame, "y" | "yTicks" | "yName"> {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  const pixels = { low: HEIGHT - MARGIN.bottom, high: MARGIN.top };
  if (low > 0 && high / low > LOG_FROM) {
    const range = { low: low / 1.2, high: high * 1.2 };
    return { y: logarithmic(range, pixels), yTicks: powers(range), yName: `${name}, logarithmic` };
  }
  const range = yRange(low, high, most);
  return { y: linear(range, pixels), yTicks: ticks(range, 5), yName: name };
}

/** From zero, unless the curve would be a flat line far above it. */
function yRange(low: number, high: number, most: number): Range {
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  const isFar = low < 0 || low > high * 0.6;
  return { low: isFar ? low - margin : 0, high: Math.min(high + margin, Math.max(most, high)) };
}

/** What has a chart show one of its steps: that under the pointer, or the one that arrow keys move to. */
export interface Pointer {
  chart: string;
  at: number | null;
  steps: Range;
  /** How far a key moves. */
  stride: number;
  /** The step at a share of the width. */
  stepAt: (share: number) => number;
}

export function followed(app: App, { chart, at, steps, stride, stepAt }: Pointer): Attributes {
  const hover = (step: number | null): void => {
    app.state.hover = step === null ? null : { chart, step: Math.round(Math.min(steps.high, Math.max(steps.low, step))) };
    app.draw();
  };
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    hover(stepAt((event.clientX - box.left) / box.width));
  };
  const key = (event: KeyboardEvent): void => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    hover((at ?? steps.high) + move * stride);
  };
  const leave = (): void => hover(null);
  return { role: "img", tabindex: 0, onpointermove: point, onpointerleave: leave, onkeydown: key, onblur: leave };
}

export function grid({ width, x, y, steps, xName, show, yTicks, yName }: Frame): SVGElement {
  const bottom = HEIGHT - MARGIN.bottom;
  const right = width - MARGIN.right;
  const labels = distinct(yTicks, show);
  return s(
    "g",
    { class: "grid" },
    yTicks.map((value, at) => [
      s("line", { x1: MARGIN.left, x2: right, y1: y(value), y2: y(value) }),
      s("text", { x: MARGIN.left - 8, y: y(value) + 4, "text-anchor": "end" }, labels[at] ?? null),
    ]),
    ticks(steps, Math.max(3, Math.floor((right - MARGIN.left) / 110)))
      .filter(Number.isInteger)
      .map((step) => {
        const anchor = x(step) > width - EDGE ? "end" : "middle";
        return s("text", { x: x(step), y: bottom + 18, "text-anchor": anchor }, count(step));
      }),
    s("text", { x: 0, y: 12 }, yName),
    s("text", { x: 0, y: bottom + 18 }, xName),
  );
}
