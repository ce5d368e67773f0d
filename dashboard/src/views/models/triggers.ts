/** A model's triggers: their rules, when they fire next, and forms to change them. */

import type { App } from "../../app/app";
import { triggers } from "../../app/queries";
import { to } from "../../app/route";
import { modelPath } from "../../daemon/api";
import type { Model, Trigger } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { clock, plural } from "../../page/format";
import { type Setting, settingsForm } from "../parts/form";
import { badge, loading, press, remover, section, when } from "../parts/parts";

const SETTINGS: readonly Setting[] = [
  { name: "name", title: "Name", kind: "text", placeholder: "automatic" },
  { name: "cron", title: "Schedule, as cron", kind: "text", placeholder: "30 2 * * mon-fri" },
  { name: "time_zone", title: "Time zone", kind: "text", placeholder: "the device’s" },
  { name: "new_samples", title: "New labels", kind: "number", placeholder: "none" },
  { name: "eligible_after", title: "Daily, at the first chance after", kind: "text", placeholder: "02:00" },
  { name: "at_most_every_hours", title: "Minimum interval", unit: "hours", kind: "number", isOptional: true },
];
const EMPTY = { name: null, cron: null, time_zone: null, new_samples: null, eligible_after: null, at_most_every_hours: null };

export function triggersView(app: App, model: Model): HTMLElement {
  const list = triggers(app, model.name);
  return section(
    "Triggers",
    { id: "triggers" },
    list === undefined
      ? loading()
      : [
          (list ?? []).length === 0 && h("p", { class: "quiet", "data-key": "none" }, "No triggers: jobs are started by hand or by apps."),
          h("ul", { class: "rows", "data-key": "list" }, (list ?? []).map((trigger) => triggerItem(app, model, trigger))),
          addForm(app, model),
        ],
  );
}

function stale({ name }: Model): string[] {
  return [modelPath(name, "/triggers")];
}

function addForm(app: App, model: Model): HTMLElement {
  const { name } = model;
  return h(
    "details",
    { "data-key": "add" },
    h("summary", {}, "Add a trigger"),
    settingsForm(app, {
      name: `trigger:${name}`,
      groups: [{ title: "A new trigger", settings: SETTINGS }],
      values: EMPTY,
      save: "Add the trigger",
      stale: stale(model),
      send: (given) => app.api.post<Trigger>(modelPath(name, "/triggers"), given).then((made) => `Trigger ${made.name} added.`),
    }),
  );
}

function triggerItem(app: App, model: Model, trigger: Trigger): HTMLElement {
  const { id, name, enabled } = trigger;
  const path = modelPath(model.name, `/triggers/${id}`);
  return h(
    "li",
    { "data-key": `trigger-${id}`, "aria-label": `Trigger ${name}` },
    h("div", { class: "row-head" }, h("h3", {}, name), !enabled && badge("held", "switched off"), h("p", { class: "quiet" }, waitsFor(trigger))),
    h("p", {}, nextText(trigger)),
    h("p", { class: "quiet" }, lastText(trigger)),
    h(
      "div",
      { class: "buttons" },
      press(app, {
        name: `switch:${id}`,
        label: enabled ? "Switch off" : "Switch on",
        about: name,
        stale: stale(model),
        run: () => app.api.patch(path, { enabled: !enabled }).then(() => null),
      }),
      remover(app, {
        label: "Delete …",
        about: name,
        title: `Delete the trigger ${name}?`,
        detail: "Jobs that it has queued are kept.",
        yes: "Delete the trigger",
        name: `delete-trigger:${id}`,
        remove: () => app.api.remove(modelPath(model.name, `/triggers/${id}`)),
        stale: stale(model),
        said: `Trigger ${name} deleted.`,
      }),
    ),
    h("details", {}, h("summary", {}, "Change"), changeForm(app, model, trigger, path)),
  );
}

function changeForm(app: App, model: Model, trigger: Trigger, path: string): HTMLElement {
  return settingsForm(app, {
    name: `trigger:${model.name}:${trigger.id}`,
    groups: [{ title: trigger.name, settings: SETTINGS }],
    values: trigger as unknown as Record<string, unknown>,
    stale: stale(model),
    send: (changed) => app.api.patch(path, changed).then(() => `Trigger ${trigger.name} saved.`),
  });
}

function waitsFor({ cron, time_zone: zone, new_samples: samples, eligible_after: after, at_most_every_hours: hours }: Trigger): string {
  const parts = [
    cron === null ? "" : `${cron}${zone === null ? "" : ` (${zone})`}`,
    samples === null ? "" : plural(samples, "new label"),
    after === null ? "" : `daily, first chance after ${after}`,
    hours === null ? "" : `at most every ${plural(hours, "hour")}`,
  ];
  return parts.filter(Boolean).join(", ");
}

function nextText({ next_at: next, enabled, new_samples: samples }: Trigger): Child[] {
  if (!enabled) return ["Will not fire."];
  if (next !== null) return ["Fires next: ", h("time", { datetime: next }, clock(next))];
  return [samples === null ? "Will not fire again." : "Fires when there are enough new labels."];
}

function lastText({ fired_at: fired, job_id: job, outcome }: Trigger): Child[] {
  if (fired === null) return [outcome || "Has not fired yet."];
  return ["Fired ", when(fired), job === null ? "" : [": ", h("a", { href: to(["jobs", job]) }, `job ${job}`)], outcome ? `. ${outcome}` : ""];
}
