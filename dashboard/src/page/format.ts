/**
 * Quantities as people read them.
 *
 * Without Intl: loading its tables delays the first paint by 20 ms and more.
 */

const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86_400;

/** That a number has beyond the usual ones. */
const MOST_DIGITS = 9;

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function count(value: number): string {
  return grouped(Math.round(value));
}

function grouped(value: number): string {
  const [whole = "", fraction] = String(value).split(".");
  const thousands = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? thousands : `${thousands}.${fraction}`;
}

/** Three significant digits, as a loss or an error is read; more: beyond these. */
export function decimal(value: number, more = 0): string {
  const size = Math.abs(value);
  const rounded = Number(value.toPrecision(3 + more));
  return size !== 0 && (size < 0.001 || size >= 100_000) ? rounded.toExponential() : grouped(rounded);
}

/** A fraction as a percentage; more: digits beyond the first after the point. */
export function percent(share: number, more = 0): string {
  return `${(share * 100).toFixed(1 + more)} %`;
}

/** Values with as many digits as tell them apart. */
export function distinct(values: number[], show: (value: number, more?: number) => string, more = 0): string[] {
  const texts = values.map((value) => show(value, more));
  return more === MOST_DIGITS || new Set(texts).size === values.length ? texts : distinct(values, show, more + 1);
}

export function duration(seconds: number): string {
  const total = Math.max(0, Math.round(seconds));
  if (total < MINUTE_S) return `${total} s`;
  if (total < HOUR_S) return `${Math.floor(total / MINUTE_S)} min ${total % MINUTE_S} s`;
  if (total < DAY_S) return `${Math.floor(total / HOUR_S)} h ${Math.floor((total % HOUR_S) / MINUTE_S)} min`;
  return `${Math.floor(total / DAY_S)} d ${Math.floor((total % DAY_S) / HOUR_S)} h`;
}

/** How long ago, coarsely. */
export function ago(then: Date, now: Date): string {
  const seconds = (now.getTime() - then.getTime()) / 1000;
  if (seconds < MINUTE_S) return "just now";
  if (seconds < HOUR_S) return `${Math.floor(seconds / MINUTE_S)} min ago`;
  if (seconds < DAY_S) return `${Math.floor(seconds / HOUR_S)} h ago`;
  return `${day(then)} ${then.getFullYear()}`;
}

/** The time of day, with the date if it is not today, and the year if it is not this one. */
export function clock(moment: string | Date): string {
  const [then, now] = [new Date(moment), new Date()];
  const date = then.getFullYear() === now.getFullYear() ? day(then) : `${day(then)} ${then.getFullYear()}`;
  const [hour, minute] = [then.getHours(), then.getMinutes()].map((part) => String(part).padStart(2, "0"));
  return `${then.toDateString() === now.toDateString() ? "" : `${date}, `}${hour}:${minute}`;
}

/** A moment to the second, with the day of the week. */
export function moment(then: Date): string {
  return then.toString().slice(0, 24);
}

function day(then: Date): string {
  return `${then.getDate()} ${MONTHS[then.getMonth()] ?? ""}`;
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Bytes with three significant digits. */
export function bytes(value: number): string {
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), UNITS.length - 1);
  return `${decimal(value / 1024 ** power)} ${UNITS[power]}`;
}
