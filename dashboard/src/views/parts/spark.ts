/** A small line chart of a few values, for tables. */

import { h, s } from "../../page/dom";
import { linear } from "../../page/scale";

const WIDTH = 96;
const HEIGHT = 22;

/** values: oldest first. label: for screen readers. marked: which dots are filled. */
export function sparkline(values: readonly number[], label: string, marked: readonly boolean[] = []): Element {
  if (values.length < 2) return h("span", { class: "quiet" }, "–");
  const range = { low: Math.min(...values), high: Math.max(...values) };
  const margin = (range.high - range.low || 1) * 0.15;
  const y = linear({ low: range.low - margin, high: range.high + margin }, { low: HEIGHT, high: 0 });
  const x = linear({ low: 0, high: values.length - 1 }, { low: 3, high: WIDTH - 3 });
  const points = values.map((value, at) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`);
  return s(
    "svg",
    { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": label },
    s("polyline", { points: points.join(" ") }),
    marked.length > 0 &&
      values.map((value, at) =>
        s("circle", { class: marked[at] ? "on" : "off", cx: x(at), cy: y(value), r: 2 }),
      ),
  );
}
