/** Forms of settings, with units, and with errors next to their fields. */

import type { App, Said } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { faultsAt, outcome } from "./parts";

export interface Setting {
  name: string;
  title: string;
  unit?: string;
  /** The shown unit in the API's units: 1 MiB is 1,048,576 bytes. */
  scale?: number;
  kind: "number" | "flag" | "list" | "choice" | "text" | "json" | "time";
  /** The values of a choice with their labels. */
  options?: readonly (readonly [string, string])[];
  /** Whether an empty field means no limit. */
  isOptional?: boolean;
  placeholder?: string;
}

/** A number that may be empty. */
export function limit(name: string, title: string, unit?: string, scale?: number): Setting {
  return { name, title, kind: "number", isOptional: true, ...(unit ? { unit } : {}), ...(scale ? { scale } : {}) };
}

type Values = Record<string, unknown>;

export interface SettingsForm {
  name: string;
  groups: readonly { title: string; settings: readonly Setting[] }[];
  values: Values;
  /** The prefix of error pointers, before the setting's name; none if it is left out. */
  pointer?: string;
  stale: readonly string[];
  /** Buttons that fill in values, to be looked at and saved. */
  presets?: readonly { title: string; about: string; values: Values }[];
  /** The label of the submit button. */
  save?: string;
  /** Of a form in a dialog: closes it. */
  close?: () => void;
  /** Fields that are not single controls. */
  more?: (changed: Values) => Child;
  /** changed: only the settings that differ from the values. */
  send: (changed: Values) => Promise<Said | null>;
}

export function settingsForm(app: App, form: SettingsForm): HTMLElement {
  // Unsent changes.
  const changed = app.draft<Values>(form.name, () => ({}));
  const isChanged = Object.keys(changed).length > 0;
  const isOff = app.state.pending.has(form.name) || app.state.connection === "lost";
  const leave = (): void => {
    forget(app, form.name);
    form.close?.();
  };
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const asked = { ...changed };
    const fields = event.currentTarget as HTMLFormElement;
    if (!(await app.act(form.name, form.stale, () => form.send(asked)))) return;
    fields.reset();
    leave();
  };
  return h(
    "form",
    { class: "form settings", "data-key": form.name, onsubmit: (event: Event) => void submit(event) },
    form.presets === undefined ? null : presetsView(app, form, changed),
    form.groups.map((group) =>
      h(
        "fieldset",
        { "data-key": group.title },
        h("legend", { class: form.groups.length === 1 ? "visually-hidden" : null }, group.title),
        h("div", { class: "fields" }, group.settings.map((setting) => field(app, form, setting, changed))),
      ),
    ),
    form.more?.(changed) ?? null,
    outcome(app, form.name, form.groups.flatMap(({ settings }) => settings.map(({ name }) => `${form.pointer ?? ""}/${name}`))),
    h(
      "div",
      { class: "buttons" },
      form.close !== undefined && h("button", { type: "reset", onclick: leave }, "Close"),
      h("button", { type: "submit", class: "primary", disabled: !isChanged || isOff }, form.save ?? "Save"),
      form.close === undefined && isChanged && h("button", { type: "reset", onclick: leave }, "Discard"),
    ),
  );
}

function presetsView(app: App, form: SettingsForm, changed: Values): HTMLElement {
  const fill = (event: Event, values: Values): void => {
    // What was typed gives way to what is drawn.
    (event.currentTarget as HTMLButtonElement).form?.reset();
    for (const [name, value] of Object.entries(values)) change(form, changed, name, value);
    app.draw();
  };
  return h(
    "fieldset",
    { "data-key": "presets" },
    h("legend", {}, "Start from a preset"),
    h(
      "div",
      { class: "fields" },
      (form.presets ?? []).map(({ title, about, values }) =>
        h("div", { "data-key": title }, h("button", { type: "button", onclick: (event: Event) => fill(event, values) }, title), h("p", { class: "quiet" }, about)),
      ),
    ),
  );
}

function change(form: SettingsForm, changed: Values, name: string, value: unknown): void {
  if (same(value, form.values[name])) delete changed[name];
  else changed[name] = value;
}

function forget(app: App, name: string): void {
  app.state.drafts.delete(name);
  app.state.results.delete(name);
  app.draw();
}

function field(app: App, form: SettingsForm, setting: Setting, changed: Values): HTMLElement {
  const { name, title, unit, kind } = setting;
  const faults = faultsAt(app, form.name, `${form.pointer ?? ""}/${name}`);
  const known = name in changed ? changed[name] : form.values[name];
  const take = (value: unknown): void => {
    change(form, changed, name, value);
    app.draw();
  };
  return h(
    "label",
    { "data-key": name, class: kind === "flag" ? "check" : null },
    kind === "flag" && control(setting, known, take, false),
    h("span", {}, title, unit ? h("span", { class: "quiet" }, ` (${unit})`) : null),
    kind !== "flag" && control(setting, known, take, faults.length > 0),
    faults,
  );
}

function control({ name, kind, scale = 1, options = [], isOptional, placeholder }: Setting, known: unknown, take: (value: unknown) => void, isWrong: boolean): HTMLElement {
  const read = (event: Event): string => (event.currentTarget as HTMLInputElement).value.trim();
  if (kind === "flag") {
    const flip = (event: Event): void => take((event.currentTarget as HTMLInputElement).checked);
    return h("input", { name, type: "checkbox", checked: known === true, onchange: flip });
  }
  if (kind === "choice") {
    return h(
      "select",
      { name, onchange: (event: Event) => take(read(event)) },
      options.map(([value, words]) => h("option", { value, selected: value === known }, words)),
    );
  }
  if (kind === "list") {
    const split = (event: Event): void => take(read(event).split(",").map((part) => part.trim()).filter(Boolean));
    return h("input", { name, type: "text", value: Array.isArray(known) ? known.join(", ") : "", oninput: split });
  }
  if (kind === "text") {
    const value = typeof known === "string" ? known : "";
    return h("input", { name, type: "text", value, placeholder: placeholder ?? null, spellcheck: "false", "aria-invalid": isWrong, oninput: (event: Event) => take(read(event) || null) });
  }
  if (kind === "time") {
    const change = (event: Event): void => take(read(event) === "" ? null : new Date(read(event)).toISOString());
    return h("input", { name, type: "datetime-local", value: typeof known === "string" ? localTime(known) : "", "aria-invalid": isWrong, oninput: change });
  }
  if (kind === "json") return jsonField(name, known, take, isWrong);
  const parse = (event: Event): void => {
    const text = read(event);
    take(text === "" ? null : scale === 1 ? Number(text) : Math.round(Number(text) * scale));
  };
  const value = typeof known === "number" ? Number((known / scale).toPrecision(6)) : "";
  const hint = placeholder ?? (isOptional ? "no limit" : null);
  return h("input", { name, type: "number", step: "any", value, placeholder: hint, "aria-invalid": isWrong, oninput: parse });
}

/** A time as the browser's field has it: local, to the minute. */
function localTime(time: string): string {
  const then = new Date(time);
  return new Date(then.getTime() - then.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** JSON as text. Invalid JSON is sent as text, and the daemon reports the error. */
function jsonField(name: string, known: unknown, take: (value: unknown) => void, isWrong: boolean): HTMLElement {
  const change = (event: Event): void => {
    const text = (event.currentTarget as HTMLTextAreaElement).value.trim();
    try {
      take(text === "" ? null : JSON.parse(text));
    } catch {
      take(text);
    }
  };
  const text = known === null || known === undefined ? "" : JSON.stringify(known, null, 1);
  return h("textarea", { name, rows: 4, spellcheck: "false", "aria-invalid": isWrong, oninput: change }, text);
}

function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a ?? null) === JSON.stringify(b ?? null);
}
