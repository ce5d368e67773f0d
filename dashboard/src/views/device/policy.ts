/** The policy as a form, with the hours of the week as a grid. */

import type { App } from "../../app/app";
import { h } from "../../page/dom";
import type { Policy } from "../../daemon/types";
import { limit, settingsForm, type Setting } from "../parts/form";
import { type Forecast, forecast } from "../../app/queries";
import { blockers, remover, section } from "../parts/parts";
import { DAYS, weekView } from "./week";

const MIB = 2 ** 20;
const STALE = ["/v1/policy", "/v1/device", "/v1/jobs"];
const fixed = (name: string, title: string, unit?: string): Setting => ({ name, title, kind: "number", ...(unit ? { unit } : {}) });
const flag = (name: string, title: string): Setting => ({ name, title, kind: "flag" });

const GROUPS = [
  {
    title: "Power",
    settings: [
      flag("require_ac_power", "Train only on mains power"),
      flag("obey_battery_saver", "Stop while battery saver is on"),
      limit("min_battery_percent", "Minimum battery level", "%"),
      limit("resume_battery_percent", "Resume at", "%"),
    ],
  },
  {
    title: "Users and other programs",
    settings: [
      flag("require_idle", "Train only while the device is idle"),
      fixed("idle_minutes", "Idle after", "minutes without input"),
      limit("max_foreign_cpu_percent", "Maximum CPU use by other programs", "% of all processors"),
      flag("download_on_metered", "Ask followed sources over metered networks"),
      { name: "blocking_processes", title: "Wait while these programs run", unit: "names, comma-separated", kind: "list" } as const,
    ],
  },
  {
    title: "Load",
    settings: [
      limit("max_cpu_pressure_percent", "Maximum CPU pressure", "% of the time"),
      limit("max_memory_pressure_percent", "Maximum memory pressure", "% of the time"),
      limit("max_io_pressure_percent", "Maximum I/O pressure", "% of the time"),
      fixed("grace_seconds", "Stop when exceeded for", "seconds"),
      fixed("settle_seconds", "Resume when back to normal for", "seconds"),
      fixed("suspend_in_memory_seconds", "Keep a stopped job in memory for", "seconds"),
    ],
  },
  {
    title: "Temperature, memory, disk",
    settings: [
      limit("max_temperature_c", "Maximum temperature", "°C"),
      limit("resume_temperature_c", "Resume at", "°C"),
      limit("min_free_memory_bytes", "Minimum free memory", "MiB", MIB),
      limit("resume_free_memory_bytes", "Resume at", "MiB", MIB),
      limit("min_free_disk_bytes", "Minimum free disk space", "MiB", MIB),
      limit("resume_free_disk_bytes", "Resume at", "MiB", MIB),
    ],
  },
  {
    title: "Resources for training",
    settings: [
      limit("max_minutes_per_day", "Maximum training per day", "minutes"),
      fixed("max_threads_busy", "Threads while in use"),
      fixed("max_threads_idle", "Threads while idle"),
      { name: "nice", title: "Niceness", unit: "0 to 19, higher yields more", kind: "number" } as const,
      limit("memory_limit_bytes", "Memory limit of child processes", "MiB", MIB),
    ],
  },
];

const AT_ANY_TIME = { require_ac_power: true, require_idle: false, max_minutes_per_day: null, windows: [] };
const PRESETS = [
  {
    title: "Laptop",
    about: "On mains power from a battery level of 50 %; stops below 30 % and in battery saver.",
    values: { ...AT_ANY_TIME, min_battery_percent: 30, resume_battery_percent: 50, obey_battery_saver: true },
  },
  {
    title: "Always on",
    about: "A server or a desktop: at any time on mains power.",
    values: { ...AT_ANY_TIME, min_battery_percent: null, resume_battery_percent: null, obey_battery_saver: false },
  },
  {
    title: "Only at night",
    about: "Every day from 22:00 to 06:00, on mains power.",
    values: { ...AT_ANY_TIME, windows: [{ days: DAYS, start: "22:00", end: "06:00" }] },
  },
];

/** Whether a job might train now with the form's settings, as they are edited. */
function forecastView(app: App, changed: Policy): HTMLElement {
  const shown = app.draft<{ forecast: Forecast | null }>("policy-forecast", () => ({ forecast: null }));
  shown.forecast = forecast(app, { ...changed }) ?? shown.forecast;
  const { check, faults } = shown.forecast ?? { check: null, faults: [] };
  const verdict = check === null ? "Not a valid policy" : check.eligible ? "A job could train now" : "No job could train now";
  return h(
    "div",
    { class: `forecast ${check?.eligible ? "good" : "held"}`, role: "status", "data-key": "forecast" },
    h("p", {}, h("strong", {}, shown.forecast === null ? "Checking …" : verdict), h("span", { class: "quiet" }, " with these unsaved changes")),
    check !== null && !check.eligible && blockers(check.blocked_by),
    faults.length > 0 && h("ul", {}, faults.map(({ pointer, detail }) => h("li", {}, h("code", {}, pointer), ` ${detail}`))),
  );
}

export function policyView(app: App, rules: Policy): HTMLElement {
  return section(
    "Policy",
    { id: "policy" },
    settingsForm(app, {
      name: "policy",
      groups: GROUPS,
      values: rules,
      presets: PRESETS,
      stale: STALE,
      more: (changed) => [
        h("fieldset", { "data-key": "windows" }, h("legend", {}, "Hours of the week"), weekView(app, (changed.windows ?? rules.windows) as Parameters<typeof weekView>[1], (windows) => {
          changed.windows = windows;
          app.draw();
        })),
        Object.keys(changed).length > 0 && forecastView(app, changed),
      ],
      send: (changed) => app.api.put("/v1/policy", changed).then(() => "Policy saved."),
    }),
    h("div", { class: "buttons" }, remover(app, {
      label: "Restore the defaults …",
      title: "Restore the default policy?",
      detail: "Every setting returns to its default, including the hours of the week.",
      yes: "Restore the defaults",
      name: "reset-policy",
      remove: () => app.api.remove("/v1/policy"),
      stale: STALE,
      said: "Default policy restored.",
    })),
  );
}
