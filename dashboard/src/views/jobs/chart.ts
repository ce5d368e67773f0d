/** Curves by step or version: smoothed lines over the raw ones, and their values under the pointer. */

import type { App } from "../../app/app";
import { h, s } from "../../page/dom";
import { count, decimal, percent } from "../../page/format";
import { type Dot, smoothed, thinned } from "../../page/scale";
import type { Point } from "../../daemon/types";
import { followed, type Frame, frameOf, grid, HEIGHT, MARGIN } from "../parts/frame";

const NAMES = { train: "training", validation: "validation" };
const MOST_MARKERS = 60;

type Kind = keyof typeof NAMES;

interface Line {
  kind: Kind;
  name: string;
  isOther: boolean;
  raw: Dot[];
  dots: Dot[];
}

export interface Chart {
  id: string;
  title: string;
  /** The names of values by line. */
  keys: Partial<Record<Kind, string>>;
  points: Point[];
  /** Another job, drawn fainter. */
  overlaid?: { name: string; points: Point[] } | null;
  /** What is counted on the x axis, and from where; steps from 0 if it is left out. */
  by?: { name: string; first: number };
  /** In pixels; the page's if it is left out. */
  width?: number;
  /** Whether values are shares of 1. */
  isShare?: boolean;
  /** Steps whose markers are hollow. */
  hollow?: ReadonlySet<number>;
}

export function chartView(app: App, chart: Chart): Element {
  const lines = [
    ...linesOf(chart, chart.points, null),
    ...(chart.overlaid ? linesOf(chart, chart.overlaid.points, chart.overlaid.name) : []),
  ];
  const drawn = lines.some(({ dots }) => dots.length > 1) ? lines : [];
  if (drawn.length === 0) return h("p", { class: "quiet" }, `The ${chart.title} curve takes at least two values.`);
  const { title, isShare, by = { name: "step", first: 0 }, width = app.width } = chart;
  const axes = { name: title, most: isShare ? 1 : Infinity, xName: by.name, first: by.first, show: isShare ? percent : decimal };
  const frame = frameOf(width, drawn.flatMap(({ dots }) => dots), axes);
  const step = app.state.hover?.chart === chart.id ? app.state.hover.step : null;
  return h("figure", { class: "curve" }, drawing(app, chart, drawn, frame, step), legend(drawn, frame, step));
}

export function seriesOf(points: Point[], key: string): Dot[] {
  return points.flatMap(({ step, values }) => {
    const value = values[key];
    return value !== undefined && Number.isFinite(value) ? [{ step, value }] : [];
  });
}

function linesOf({ keys }: Chart, points: Point[], other: string | null): Line[] {
  return (Object.entries(keys) as [Kind, string][]).flatMap(([kind, key]) => {
    const raw = seriesOf(points, key);
    if (raw.length === 0) return [];
    const name = other === null ? NAMES[kind] : `${NAMES[kind]}, ${other}`;
    return [{ kind, name, isOther: other !== null, raw, dots: kind === "train" ? smoothed(raw) : raw }];
  });
}

function drawing(app: App, chart: Chart, lines: Line[], frame: Frame, step: number | null): SVGElement {
  const { width, x, steps } = frame;
  const stepAt = (share: number): number => steps.low + ((share * width - MARGIN.left) / (x(steps.high) - MARGIN.left)) * (steps.high - steps.low);
  const stride = Math.max(1, Math.floor((steps.high - steps.low) / 50));
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${HEIGHT}`,
      width,
      height: HEIGHT,
      "aria-label": summary(chart, lines, frame.show),
      ...followed(app, { chart: chart.id, at: step, steps, stride, stepAt }),
    },
    grid(frame),
    lines.map((line) => lineView(line, frame, chart.hollow)),
    step !== null && s("line", { class: "cursor", x1: x(step), x2: x(step), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }),
    step !== null &&
      lines.map((line) => {
        const dot = nearest(line.dots, step);
        return s("circle", { class: `${line.kind} at`, cx: x(dot.step), cy: frame.y(dot.value), r: 3.5 });
      }),
  );
}

function lineView({ kind, isOther, raw, dots }: Line, { x, y, width }: Frame, hollow?: ReadonlySet<number>): SVGElement {
  const most = Math.max(60, Math.floor(width / 2));
  const path = (list: Dot[]): string =>
    thinned(list, most)
      .map(({ step, value }) => `${x(step).toFixed(1)},${within(y(value)).toFixed(1)}`)
      .join(" ");
  return s(
    "g",
    { class: `${kind} ${isOther ? "other" : ""}` },
    raw !== dots && !isOther && s("polyline", { class: "raw", points: path(raw) }),
    s("polyline", { points: path(dots) }),
    kind === "validation" &&
      !isOther &&
      dots.length <= MOST_MARKERS &&
      dots.map((dot) => s("circle", { class: hollow?.has(dot.step) ? "hollow" : null, cx: x(dot.step), cy: y(dot.value), r: hollow ? 4 : 2.5 })),
  );
}

/** Raw values may be outside the axis, which fits their means; the logarithm of 0 always is. */
function within(pixels: number): number {
  return Math.min(HEIGHT - MARGIN.bottom, Math.max(MARGIN.top - 8, pixels));
}

/** Names with their values: at the pointer, else at the end. */
function legend(lines: Line[], { xName, steps, show }: Frame, step: number | null): HTMLElement {
  return h(
    "figcaption",
    { class: "legend" },
    h("span", { class: "quiet number" }, `${xName} ${count(step ?? steps.high)}`),
    lines.map(({ kind, name, isOther, dots }) =>
      h(
        "span",
        { class: `key ${kind} ${isOther ? "other" : ""}`, "data-key": name },
        `${name} `,
        h("strong", { class: "number" }, show(nearest(dots, step ?? Infinity).value)),
      ),
    ),
  );
}

/** The last dot up to the step. */
function nearest(dots: Dot[], step: number): Dot {
  let found = dots[0] ?? { step: 0, value: NaN };
  for (const dot of dots) {
    if (dot.step > step) break;
    found = dot;
  }
  return found;
}

function summary({ title }: Chart, lines: Line[], show: Frame["show"]): string {
  const told = lines.map(({ name, dots }) => {
    const [first, last] = [dots[0]?.value ?? 0, dots.at(-1)?.value ?? 0];
    return `${name} ${title} went from ${show(first)} to ${show(last)}`;
  });
  return `${title.charAt(0).toUpperCase()}${title.slice(1)} curve: ${told.join(", ")}.`;
}
