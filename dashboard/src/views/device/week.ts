/** The week as a grid of hours: those in which training is allowed. */

import type { App } from "../../app/app";
import { h } from "../../page/dom";
import { scrolled } from "../parts/parts";

export interface Window {
  days: string[];
  start: string;
  end: string;
}

export const DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);

/** Which hours windows allow; windows past midnight belong to the day on which they start. */
export function hoursOf(windows: readonly Window[]): boolean[][] {
  const grid = DAYS.map(() => HOURS.map(() => false));
  for (const { days, start, end } of windows) {
    const [first, last] = [minutesOf(start), minutesOf(end)];
    const length = last > first ? last - first : last - first + 1440;
    for (const name of days) {
      const day = DAYS.indexOf(name);
      for (let at = Math.ceil(first / 60); at * 60 + 60 <= first + length; at += 1) {
        const row = grid[(day + Math.floor(at / 24)) % 7];
        if (row) row[at % 24] = true;
      }
    }
  }
  return grid;
}

/** The windows of a grid: runs of hours, days with equal runs together. */
export function windowsOf(grid: readonly (readonly boolean[])[]): Window[] {
  const found = new Map<string, Window>();
  grid.forEach((row, day) => {
    for (let hour = 0; hour < 24; hour += 1) {
      if (!row[hour] || (hour > 0 && row[hour - 1])) continue;
      let end = hour;
      while (end < 24 && row[end]) end += 1;
      const [start, until] = [clock(hour), clock(end)];
      const window = found.get(`${start}-${until}`) ?? { days: [], start, end: until };
      window.days.push(DAYS[day] ?? "");
      found.set(`${start}-${until}`, window);
    }
  });
  return [...found.values()];
}

/** change: takes the windows after a press. Without windows every hour is allowed. */
export function weekView(app: App, windows: readonly Window[], change: (windows: Window[]) => void): HTMLElement {
  const grid = hoursOf(windows);
  const flip = (day: number, hours: readonly number[]): void => {
    const isOn = hours.every((hour) => grid[day]?.[hour]);
    const next = grid.map((row, at) => (at === day ? row.map((was, hour) => (hours.includes(hour) ? !isOn : was)) : row));
    change(windowsOf(next));
  };
  return h(
    "div",
    { class: "week-frame" },
    h("p", { class: "quiet", role: "status" }, windows.length === 0 ? "Every hour is allowed. Click hours of the device’s clock to allow only those." : `${said(windows)}, on the device’s clock`),
    scrolled(
      "Week",
      h(
        "table",
        { class: "week" },
        h("thead", {}, h("tr", {}, h("td", {}), HOURS.map((hour) => h("th", { scope: "col" }, hour % 3 === 0 ? String(hour) : "")))),
        h(
          "tbody",
          {},
          DAYS.map((name, day) =>
            h(
              "tr",
              { "data-key": name },
              h("th", { scope: "row" }, h("button", { type: "button", class: "plain", onclick: () => flip(day, HOURS) }, name)),
              HOURS.map((hour) =>
                h(
                  "td",
                  {},
                  h("button", {
                    type: "button",
                    class: grid[day]?.[hour] ? "hour on" : "hour",
                    "aria-pressed": grid[day]?.[hour] ? "true" : "false",
                    "aria-label": `${name} ${clock(hour)}`,
                    disabled: app.state.connection === "lost",
                    onclick: () => flip(day, [hour]),
                  }),
                ),
              ),
            ),
          ),
        ),
      ),
    ),
  );
}

function said(windows: readonly Window[]): string {
  return windows.map(({ days, start, end }) => `${days.join(", ")} ${start} to ${end}`).join("; ");
}

function minutesOf(time: string): number {
  const [hour = 0, minute = 0] = time.split(":").map(Number);
  return hour * 60 + minute;
}

function clock(hour: number): string {
  return `${String(hour).padStart(2, "0")}:00`;
}
