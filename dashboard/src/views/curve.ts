/** The loss curve as SVG: training as a line, validation as dots on a line. */

import { h, s } from "../dom";
import { count, decimal } from "../format";
import { type Dot, linear, logarithmic, powers, type Range, thinned, ticks } from "../scale";
import type { Job, Point } from "../types";

const HEIGHT = 240;
const MARGIN = { top: 26, right: 130, bottom: 30, left: 50 };
/** Below this width the labels stand above the curve, not beside it. */
const NARROW = 520;
/** A loss that falls by more is drawn on a logarithmic scale. */
const LOG_FROM = 50;
const MOST_MARKERS = 60;
const LABEL_GAP = 17;
/** A number under the axis this near to the edge would be cut off. */
const EDGE = 30;

interface Series {
  kind: "train" | "validation";
  name: string;
  dots: Dot[];
}

interface Frame {
  width: number;
  x: (step: number) => number;
  y: (loss: number) => number;
  right: number;
  steps: Range;
  lossTicks: number[];
  lossName: string;
}

export function curveView(job: Job, points: Point[], width: number): Element {
  const series = [
    seriesOf("train", "training", "train_loss", points),
    seriesOf("validation", "validation", "validation_loss", points),
  ].filter((each) => each.dots.length > 0);
  const drawn = series.some((each) => each.dots.length > 1) ? series : [];
  return h(
    "figure",
    { class: "curve", "data-key": "curve" },
    drawn.length > 0
      ? drawing(drawn, frameOf(job, drawn, width), summary(drawn))
      : h("p", { class: "quiet" }, "The loss curve begins after the first steps."),
  );
}

function seriesOf(kind: Series["kind"], name: string, key: string, points: Point[]): Series {
  const dots = points.flatMap(({ step, values }) => {
    const value = values[key];
    return value !== undefined && Number.isFinite(value) ? [{ step, value }] : [];
  });
  return { kind, name, dots };
}

function frameOf(job: Job, series: Series[], width: number): Frame {
  const dots = series.flatMap((each) => each.dots);
  const lastStep = Math.max(...dots.map((dot) => dot.step), job.progress.step, 1);
  const steps = { low: 0, high: lastStep };
  const right = width - (width < NARROW ? 14 : MARGIN.right);
  const x = linear(steps, { low: MARGIN.left, high: right });
  return { width, x, right, steps, ...lossAxis(dots.map((dot) => dot.value)) };
}

function lossAxis(values: number[]): Pick<Frame, "y" | "lossTicks" | "lossName"> {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  const pixels = { low: HEIGHT - MARGIN.bottom, high: MARGIN.top };
  if (low > 0 && high / low > LOG_FROM) {
    const range = { low: low / 1.2, high: high * 1.2 };
    const lossName = "loss, logarithmic";
    return { y: logarithmic(range, pixels), lossTicks: powers(range), lossName };
  }
  const range = lossRange(low, high);
  return { y: linear(range, pixels), lossTicks: ticks(range, 4), lossName: "loss" };
}

/** From zero, unless the curve would be a flat line far above it. */
function lossRange(low: number, high: number): Range {
  const margin = (high - low || Math.abs(high) || 1) * 0.06;
  const isFar = low < 0 || low > high * 0.6;
  return { low: isFar ? low - margin : 0, high: high + margin };
}

function drawing(series: Series[], frame: Frame, text: string): SVGElement {
  return s(
    "svg",
    {
      viewBox: `0 0 ${frame.width} ${HEIGHT}`,
      width: frame.width,
      height: HEIGHT,
      role: "img",
      "aria-label": text,
    },
    grid(frame),
    series.map((each) => line(each, frame)),
    labels(series, frame),
  );
}

function grid({ width, x, y, right, steps, lossTicks, lossName }: Frame): SVGElement {
  const bottom = HEIGHT - MARGIN.bottom;
  return s(
    "g",
    { class: "grid" },
    lossTicks.map((loss) => [
      s("line", { x1: MARGIN.left, x2: right, y1: y(loss), y2: y(loss) }),
      s("text", { x: MARGIN.left - 8, y: y(loss) + 4, "text-anchor": "end" }, decimal(loss)),
    ]),
    ticks(steps, Math.max(2, Math.floor((right - MARGIN.left) / 110)))
      .filter(Number.isInteger)
      .map((step) => {
        const anchor = x(step) > width - EDGE ? "end" : "middle";
        return s("text", { x: x(step), y: bottom + 20, "text-anchor": anchor }, count(step));
      }),
    s("text", { x: 0, y: 12 }, lossName),
    s("text", { x: 0, y: bottom + 20 }, "step"),
  );
}

function line({ kind, dots }: Series, { x, y, width }: Frame): SVGElement {
  const shown = thinned(dots, Math.max(60, Math.floor(width / 3)));
  const path = shown.map(({ step, value }) => `${x(step).toFixed(1)},${y(value).toFixed(1)}`);
  const hasMarkers = kind === "validation" && shown.length <= MOST_MARKERS;
  return s(
    "g",
    { class: kind },
    s("polyline", { points: path.join(" ") }),
    hasMarkers && shown.map((dot) => s("circle", { cx: x(dot.step), cy: y(dot.value), r: 2.5 })),
  );
}

function labels(series: Series[], frame: Frame): SVGElement[] {
  return frame.width < NARROW ? labelsAbove(series, frame) : labelsBeside(series, frame);
}

function labelsAbove(series: Series[], { width }: Frame): SVGElement[] {
  return series.map(({ kind, name }, index) =>
    s(
      "text",
      { class: `${kind} label`, x: width - 14 - index * 76, y: 12, "text-anchor": "end" },
      name,
    ),
  );
}

/** At the lines' ends, pushed apart where they would overlap. */
function labelsBeside(series: Series[], { x, y }: Frame): SVGElement[] {
  const ends = series.flatMap(({ kind, name, dots }) => {
    const last = dots[dots.length - 1];
    return last === undefined ? [] : [{ kind, name, last, at: y(last.value) }];
  });
  ends.sort((a, b) => a.at - b.at);
  const [upper, lower] = ends;
  if (upper !== undefined && lower !== undefined && lower.at - upper.at < LABEL_GAP) {
    const middle = Math.min((upper.at + lower.at) / 2, HEIGHT - MARGIN.bottom - LABEL_GAP / 2);
    upper.at = middle - LABEL_GAP / 2;
    lower.at = middle + LABEL_GAP / 2;
  }
  const left = Math.max(...ends.map(({ last }) => x(last.step))) + 8;
  return ends.map(({ kind, name, last, at }) =>
    s("text", { class: `${kind} label`, x: left, y: at + 4 }, `${name} ${decimal(last.value)}`),
  );
}

function summary(series: Series[]): string {
  const told = series.map(({ name, dots }) => {
    const [first, last] = [dots[0]?.value ?? 0, dots[dots.length - 1]?.value ?? 0];
    return `${name} loss went from ${decimal(first)} to ${decimal(last)}`;
  });
  return `Loss curve: ${told.join(", ")}.`;
}
