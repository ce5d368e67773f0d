/** Quantities as people read them. */

const MINUTE_S = 60;
const HOUR_S = 3600;
const DAY_S = 86_400;

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value: number): string {
  return whole.format(value);
}

/** Three significant digits, as a loss or an error is read. */
export function decimal(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.001 || size >= 100_000)) return Number(value.toPrecision(3)).toExponential();
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

/** A share of one as a percentage. */
export function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
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
  return then.toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

/** The time of day, with the date if it was not today. */
export function clock(moment: string | Date): string {
  const then = new Date(moment);
  const isToday = then.toDateString() === new Date().toDateString();
  const date: Intl.DateTimeFormatOptions = isToday ? {} : { day: "numeric", month: "short" };
  return then.toLocaleString(undefined, { ...date, hour: "2-digit", minute: "2-digit" });
}

export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Bytes with three significant digits. */
export function bytes(value: number): string {
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log2(value) / 10), UNITS.length - 1);
  return `${(value / 1024 ** power).toLocaleString("en", { maximumSignificantDigits: 3 })} ${UNITS[power]}`;
}
