/** From values to pixels. */

export interface Range {
  low: number;
  high: number;
}

/** A linear map of `from` onto `to`. */
export function linear(from: Range, to: Range): (value: number) => number {
  const span = from.high - from.low || 1;
  return (value) => to.low + ((value - from.low) / span) * (to.high - to.low);
}

/** The same for the logarithm; `from` is positive. */
export function logarithmic(from: Range, to: Range): (value: number) => number {
  const map = linear({ low: Math.log10(from.low), high: Math.log10(from.high) }, to);
  return (value) => map(Math.log10(value));
}

/** Powers of ten inside a positive range, at most five of them, evenly. */
export function powers(range: Range): number[] {
  const first = Math.ceil(Math.log10(range.low));
  const last = Math.floor(Math.log10(range.high));
  const stride = Math.ceil((last - first + 1) / 5);
  const found: number[] = [];
  for (let exponent = last; exponent >= first; exponent -= stride) found.push(10 ** exponent);
  return found;
}

/** Round numbers (1, 2 or 5 times a power of ten) inside the range, about `wanted` of them. */
export function ticks(range: Range, wanted: number): number[] {
  const rough = (range.high - range.low) / Math.max(1, wanted);
  if (!(rough > 0) || !Number.isFinite(rough)) return [range.low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power;
  const found: number[] = [];
  for (let each = Math.ceil(range.low / step); each * step <= range.high; each += 1) {
    found.push(each * step);
  }
  return found;
}

export interface Dot {
  step: number;
  value: number;
}

/** At most `most` dots, each the mean of a group of neighbours, at the group's last step. */
export function thinned(dots: Dot[], most: number): Dot[] {
  const size = Math.ceil(dots.length / most);
  if (size <= 1) return dots;
  const means: Dot[] = [];
  for (let first = 0; first < dots.length; first += size) {
    const group = dots.slice(first, first + size);
    const value = group.reduce((sum, dot) => sum + dot.value, 0) / group.length;
    means.push({ step: group[group.length - 1]?.step ?? 0, value });
  }
  return means;
}

const MOST_SMOOTHED = 50;

/** The moving average over a fiftieth of all dots. */
export function smoothed(dots: Dot[]): Dot[] {
  const size = Math.ceil(dots.length / MOST_SMOOTHED);
  if (size <= 1) return dots;
  let sum = 0;
  return dots.map(({ step, value }, at) => {
    sum += value - (at >= size ? (dots[at - size]?.value ?? 0) : 0);
    return { step, value: sum / Math.min(size, at + 1) };
  });
}

/** The mean of the newest dots, null if there are none. */
export function latestMean(dots: Dot[]): number | null {
  return smoothed(dots).at(-1)?.value ?? null;
}
