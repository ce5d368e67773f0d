/** Small elements that several views share. */

import type { App, Said } from "../../app/app";
import { isAt } from "../../app/registration";
import { type Attributes, type Child, h } from "../../page/dom";
import { ago, moment } from "../../page/format";
import type { Blocker, JobState } from "../../daemon/types";
import { condition, STATES } from "../../page/words";

export interface Press {
  /** Tells buttons of a page apart. */
  name: string;
  label: string;
  /** What a screen reader adds to the label: which model, which job. */
  about?: string;
  kind?: "primary" | "danger" | "plain";
  /** Addresses that it changes. */
  stale?: readonly string[];
  disabled?: boolean;
  run: () => Promise<Said | null>;
}

/** A button that makes a request; next to it, the error if that failed. */
export function press(app: App, { name, label, about, kind, stale = [], disabled, run }: Press): HTMLElement {
  const { pending, connection } = app.state;
  return h(
    "span",
    { class: "press", "data-key": name },
    h(
      "button",
      {
        type: "button",
        class: kind ?? null,
        "data-key": name,
        "aria-label": about ? `${label} ${about}` : null,
        disabled: pending.has(name) || connection === "lost" || disabled === true,
        onclick: () => void app.act(name, stale, run),
      },
      label,
    ),
    outcome(app, name),
  );
}

/** The error of a failed action, with the faults of the request. fields: places whose faults are shown there. */
export function outcome(app: App, name: string, fields: readonly string[] = []): HTMLElement | null {
  const result = app.state.results.get(name);
  if (result === undefined) return null;
  const faults = result.faults.filter(({ pointer }) => !fields.some((place) => isAt(pointer, place)));
  return h(
    "span",
    { class: "outcome problem", role: "alert", "data-key": "outcome" },
    result.text,
    faults.length > 0 && h("ul", {}, faults.map((fault) => h("li", {}, faultText(fault)))),
  );
}

/** The faults of a failed action at one field. */
export function faultsAt(app: App, name: string, place: string): HTMLElement[] {
  const faults = app.state.results.get(name)?.faults.filter(({ pointer }) => isAt(pointer, place)) ?? [];
  return faults.map(({ pointer, detail }) => h("span", { class: "problem", role: "alert" }, faultText({ pointer: pointer.slice(place.length), detail })));
}

function faultText({ pointer, detail }: { pointer: string; detail: string }): Child[] {
  return pointer === "" ? [detail] : [h("code", {}, pointer), ` ${detail}`];
}

/** A button that opens something here. */
export function opener(name: string, label: string, onclick: () => void, about = "", kind: string | null = null, disabled = false): HTMLElement {
  return h(
    "button",
    { type: "button", class: kind, "data-key": name, "aria-label": about ? `${label} ${about}` : null, disabled, onclick },
    label,
  );
}

/** A button that chooses files. take: is given the first, and all. attributes: of its input. */
export function fileButton(label: string, take: (file: File, files: FileList) => void, attributes: Attributes = {}): HTMLElement {
  const onchange = (event: Event): void => {
    const field = event.currentTarget as HTMLInputElement;
    if (field.files?.[0]) take(field.files[0], field.files);
    field.value = "";
  };
  return h("label", { class: `file ${attributes.disabled ? "off" : ""}` }, label, h("input", { type: "file", class: "visually-hidden", ...attributes, onchange }));
}

/** Attributes of what files may be dropped on. */
export function dropping(take: (transfer: DataTransfer) => void): Attributes {
  const ondrop = (event: DragEvent): void => {
    event.preventDefault();
    if (event.dataTransfer) take(event.dataTransfer);
  };
  return { ondragover: (event: DragEvent) => event.preventDefault(), ondrop };
}

export function badge(kind: JobState | "promoted" | "held" | "latest", text?: string): HTMLElement {
  return h("span", { class: `badge ${kind}` }, text ?? STATES[kind as JobState]);
}

export function blockers(blocked: Blocker[]): HTMLElement {
  return h(
    "ul",
    { class: "blockers" },
    blocked.map((each) =>
      h("li", { "data-key": each.condition }, h("strong", {}, condition(each)), ` ${each.detail}`),
    ),
  );
}

export function when(time: string): HTMLElement {
  const then = new Date(time);
  return h("time", { datetime: time, title: moment(then) }, ago(then, new Date()));
}

export function fact(name: string, value: Child): HTMLElement {
  return h("div", { class: "fact", "data-key": name }, h("dt", {}, name), h("dd", {}, value));
}

/** Names with their values; those that are no text are shown as JSON. */
export function pairs(entries: readonly (readonly [string, unknown])[]): HTMLElement {
  const shown = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
  return h("dl", { class: "pairs" }, entries.map(([name, value]) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, shown(value)))));
}

/** A part of a page with a heading. */
export function section(title: string, attributes: { id: string; class?: string }, ...children: Child[]): HTMLElement {
  const { id } = attributes;
  return h(
    "section",
    { class: `card ${attributes.class ?? ""}`.trim(), "data-key": id, "aria-labelledby": id },
    h("h2", { id }, title),
    children,
  );
}

/** Content that may be wider than the page: it scrolls, also by keyboard. */
export function scrolled(label: string, ...children: Child[]): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, children);
}

/** A table below the titles of its columns. kind: its class. */
export function table(label: string, titles: readonly Child[], rows: HTMLElement[], kind: string | null = null): HTMLElement {
  const head = h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title))));
  return scrolled(label, h("table", { class: kind }, head, h("tbody", {}, rows)));
}

/** For screen readers alone. */
export function unseen(words: string): HTMLElement {
  return h("span", { class: "visually-hidden" }, words);
}

/** Links to the pages of a place. all: with their addresses. */
export function tabs(label: string, all: readonly { name: string; href: string }[], current: string): HTMLElement {
  return h(
    "nav",
    { class: "tabs", "aria-label": label, "data-key": "tabs" },
    all.map(({ name, href }) => h("a", { href, "aria-current": name === current ? "page" : null }, name)),
  );
}

/** The heading of a page, which gets the focus when the page is opened. */
export function heading(title: Child, ...beside: Child[]): HTMLElement {
  return h("div", { class: "heading", "data-key": "heading" }, h("h1", { tabindex: -1 }, title), beside);
}

/** Instead of a page: what does not exist, and where to go on. */
export function missing(what: string, href: string, name: string): Child[] {
  return [heading(`${what} not found`), h("p", {}, h("a", { href }, name))];
}

/** Until something is loaded; of what the daemon does not tell there is nothing. */
export function loading(known?: null): HTMLElement | null {
  return known === null ? null : h("p", { class: "quiet", "data-key": "loading" }, "Loading …");
}

export interface Question {
  title: string;
  detail?: Child;
  /** What else the user decides, drawn anew with the page. */
  fields?: () => Child;
  /** Where those show what is wrong with them. */
  places?: readonly string[];
  no?: string;
  yes: string;
  kind?: "primary" | "danger";
  name: string;
  stale: readonly string[];
  /** given: the values of the fields. */
  run: (given: FormData) => Promise<Said | null>;
  /** What follows, instead of closing the dialog. */
  done?: () => void;
}

/** Asks for what a button does first: to confirm what cannot be undone, or to fill in fields. */
export function confirm(app: App, question: Question): void {
  const { title, detail = null, fields, places, no = "Keep it", yes, kind = "danger", name, stale, run, done = () => app.close() } = question;
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    const given = new FormData(event.currentTarget as HTMLFormElement);
    if (await app.act(name, stale, () => run(given))) done();
  };
  app.state.results.delete(name);
  app.open(() =>
    h(
      "form",
      { class: "question", "data-key": name, onsubmit: (event: Event) => void submit(event) },
      h("h2", { id: "dialog-title" }, title),
      detail !== null && h("p", {}, detail),
      fields?.() ?? null,
      outcome(app, name, places),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => app.close() }, no),
        h("button", { type: "submit", class: kind, disabled: app.state.pending.has(name) }, yes),
      ),
    ),
  );
}

export interface Removal extends Omit<Question, "run"> {
  label: string;
  /** What a screen reader adds to the label. */
  about?: string;
  remove: () => Promise<unknown>;
  said: string;
}

/** A button that removes something for good, once that is confirmed. */
export function remover(app: App, { label, about, remove, said, ...question }: Removal): HTMLElement {
  const run = async (): Promise<string> => {
    await remove();
    return said;
  };
  return opener(`ask-${question.name}`, label, () => confirm(app, { ...question, run }), about, "danger");
}
