/** The last 24 hours: when training was allowed and when it ran, and each signal with its limit. */

import type { App } from "../../app/app";
import { deviceHistory } from "../../app/queries";
import type { DeviceHistory, Policy } from "../../daemon/types";
import { type Limited, limitsOf } from "../../page/conditions";
import { type Child, h, s } from "../../page/dom";
import { clock, duration } from "../../page/format";
import { linear } from "../../page/scale";
import { followed } from "../parts/frame";
import { loading, section } from "../parts/parts";

const CHART = "device-history";
const HEIGHT = 72;
const STRIP_HEIGHT = 14;
const AXIS_HEIGHT = 18;
/** Of charts beside each other; dashboard.css has the same. */
const NARROWEST = 300;
const GAP = 24;
const TICK_HOURS = 6;
/** The name of an hour this near to the edge would be cut off. */
const EDGE = 32;

interface Frame {
  told: DeviceHistory;
  count: number;
  width: number;
  x: (index: number) => number;
  /** The interval under the pointer. */
  at: number | null;
}

export function historyView(app: App, rules: Policy): HTMLElement {
  const told = deviceHistory(app);
  return section("The last 24 hours", { id: "history" }, told ? filled(app, told, rules) : loading(told));
}

function filled(app: App, told: DeviceHistory, rules: Policy): Child {
  const count = told.eligible.length;
  const width = app.widthOf("history");
  const columns = Math.max(1, Math.floor((width + GAP) / (NARROWEST + GAP)));
  const at = app.state.hover?.chart === CHART ? Math.round(app.state.hover.step) : null;
  const frame = (wide: number): Frame => ({ told, count, width: wide, at, x: linear({ low: 0, high: count }, { low: 0, high: wide }) });
  const shown = limitsOf(rules).filter(({ signal }) => told.signals[signal]?.values.some((value) => value !== null));
  const column = frame(Math.floor((width - GAP * (columns - 1)) / columns));
  return h(
    "div",
    { class: "history", "data-key": "history" },
    h("p", { class: "quiet", "data-key": "summary" }, summary(told, at)),
    drawing(app, frame(width), STRIP_HEIGHT, `When training was allowed: ${allowed(told)}`, strip(frame(width))),
    legend(),
    h("div", { class: "signals" }, shown.map((limited) => signalView(app, column, limited))),
  );
}

function legend(): HTMLElement {
  const keys = [["trained", "trained"], ["allowed", "allowed"], ["held", "not allowed"], ["unknown", "unknown"]];
  return h("p", { class: "legend strip-keys", "data-key": "keys" }, keys.map(([kind, name]) => h("span", { class: `swatch ${kind}` }, name ?? "")));
}

function allowed({ eligible }: DeviceHistory): string {
  const known = eligible.filter((each) => each !== null);
  const share = known.filter(Boolean).length / Math.max(1, known.length);
  return `${Math.round(share * 100)} % of the time the daemon was running`;
}

function summary(told: DeviceHistory, at: number | null): string {
  const { trained_seconds: trained, interval_seconds: length } = told;
  if (at !== null) {
    const begin = Date.parse(told.since) + at * length * 1000;
    const state = { true: "allowed", false: "not allowed", null: "unknown" }[String(told.eligible[at] ?? null)];
    return `${clock(new Date(begin))}: training was ${state}; trained ${duration(trained[at] ?? 0)} of ${duration(length)}`;
  }
  const sum = trained.reduce((total, each) => total + each, 0);
  return `Trained ${duration(sum)}; allowed ${allowed(told)}.`;
}

/** The states of intervals as runs of one colour. */
function strip({ told, count, x }: Frame): Child[] {
  const kindAt = (index: number): string => {
    if ((told.trained_seconds[index] ?? 0) > 0) return "trained";
    return { true: "allowed", false: "held", null: "unknown" }[String(told.eligible[index] ?? null)] ?? "unknown";
  };
  return runs(count, kindAt).map(({ kind, from, to }) =>
    s("rect", { class: kind, x: x(from), y: 0, width: x(to) - x(from), height: STRIP_HEIGHT }),
  );
}

function runs(count: number, kindAt: (index: number) => string): { kind: string; from: number; to: number }[] {
  const found: { kind: string; from: number; to: number }[] = [];
  for (let index = 0; index < count; index += 1) {
    const last = found.at(-1);
    if (last?.kind === kindAt(index)) last.to = index + 1;
    else found.push({ kind: kindAt(index), from: index, to: index + 1 });
  }
  return found;
}

function signalView(app: App, frame: Frame, { title, signal, show, stop, resume }: Limited): HTMLElement {
  const values = frame.told.signals[signal]?.values ?? [];
  const limits = [...new Set([stop, resume])].filter((each) => each !== null);
  const known = values.filter((value) => value !== null);
  const highest = Math.max(...known, ...limits, 0) || 1;
  const y = linear({ low: 0, high: highest * 1.08 }, { low: HEIGHT, high: 0 });
  const now = frame.at === null ? values.at(-1) : values[frame.at];
  const told = now === null || now === undefined ? "unknown" : show(now);
  const limited = stop === null ? "no limit" : `limit ${show(stop)}`;
  const label = `${title} over 24 hours: from ${show(Math.min(...known))} to ${show(Math.max(...known))}, ${limited}`;
  return h(
    "figure",
    { "data-key": signal },
    h("figcaption", {}, h("span", {}, title), h("strong", { class: "number" }, told), h("span", { class: "quiet" }, limited)),
    drawing(app, frame, HEIGHT, label, [
      runs(frame.count, (index) => String((frame.told.trained_seconds[index] ?? 0) > 0))
        .filter(({ kind }) => kind === "true")
        .map(({ from, to }) => s("rect", { class: "during", x: frame.x(from), y: 0, width: frame.x(to) - frame.x(from), height: HEIGHT })),
      limits.map((limit) => s("line", { class: limit === stop ? "limit" : "limit back", x1: 0, x2: frame.width, y1: y(limit), y2: y(limit) })),
      pieces(values).map((piece) => line(piece, frame, y)),
    ]),
  );
}

function line(piece: { index: number; value: number }[], { x }: Frame, y: (value: number) => number): SVGElement {
  const [first] = piece;
  if (first && piece.length === 1) return s("circle", { cx: x(first.index + 0.5), cy: y(first.value), r: 1.5 });
  const points = piece.map(({ index, value }) => `${x(index + 0.5).toFixed(1)},${y(value).toFixed(1)}`);
  return s("polyline", { points: points.join(" ") });
}

/** Values without gaps. */
function pieces(values: (number | null)[]): { index: number; value: number }[][] {
  const found: { index: number; value: number }[][] = [];
  values.forEach((value, index) => {
    if (value === null) return;
    if (index > 0 && values[index - 1] !== null) found.at(-1)?.push({ index, value });
    else found.push([{ index, value }]);
  });
  return found;
}

/** All charts share one time axis and one pointer. */
function drawing(app: App, frame: Frame, height: number, label: string, children: Child[]): SVGElement {
  const { width, count, x, at } = frame;
  const steps = { low: 0, high: count - 1 };
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${height + AXIS_HEIGHT}`,
      width,
      height: height + AXIS_HEIGHT,
      "aria-label": label,
      ...followed(app, { chart: CHART, at, steps, stride: 1, stepAt: (share) => Math.floor(share * count) }),
    },
    children,
    s("line", { class: "base", x1: 0, x2: width, y1: height, y2: height }),
    hours(frame).map(({ index, name }) => [
      s("line", { class: "base", x1: x(index), x2: x(index), y1: height, y2: height + 4 }),
      s("text", { x: x(index), y: height + 15, "text-anchor": "middle" }, name),
    ]),
    at !== null && s("line", { class: "cursor", x1: x(at + 0.5), x2: x(at + 0.5), y1: 0, y2: height }),
  );
}

/** Every sixth hour of the clock whose name fits. */
function hours({ told, count, width, x }: Frame): { index: number; name: string }[] {
  const begin = Date.parse(told.since);
  const step = told.interval_seconds * 1000;
  const next = new Date(begin);
  next.setHours(Math.ceil((next.getHours() + 1) / TICK_HOURS) * TICK_HOURS, 0, 0, 0);
  const found: { index: number; name: string }[] = [];
  for (let time = next.getTime(); time < begin + count * step; time += TICK_HOURS * 3_600_000) {
    const index = (time - begin) / step;
    if (x(index) > EDGE && x(index) < width - EDGE) found.push({ index, name: clock(new Date(time)).split(", ").at(-1) ?? "" });
  }
  return found;
}
