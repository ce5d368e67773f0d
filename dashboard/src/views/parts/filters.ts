/** The controls of lists that are filtered and read page by page: events, and the audit log. */

import type { App } from "../../app/app";
import { models, type Pages, shownOf } from "../../app/queries";
import { type Child, h } from "../../page/dom";
import { loading, opener } from "./parts";

/** A list's first pages, or that it is empty. */
export function pagesView<T>(app: App, path: string, { items, isWhole }: Pages<T>, empty: string, show: (items: T[]) => Child): Child {
  if (!items) return loading(items);
  return [items.length === 0 ? h("p", { class: "quiet" }, empty) : show(items), moreButton(app, path, isWhole)];
}

export function moreButton(app: App, path: string, isWhole: boolean): Child {
  if (isWhole) return null;
  const more = (): void => {
    shownOf(app, path).pages += 1;
    app.draw();
  };
  return h("div", { class: "buttons" }, opener("more", "Show more", more));
}

export function filters(...fields: Child[]): HTMLElement {
  return h("div", { class: "fields filters", "data-key": "filters" }, fields);
}

/** options: values with their labels. inline: the key of a choice in a line of controls. */
export function choice(title: string, now: string | null, options: readonly (readonly [string, string])[], change: (value: string) => void, inline: string | null = null): HTMLElement {
  const chosen = (event: Event): void => change((event.currentTarget as HTMLSelectElement).value);
  // The address may ask for anything.
  const asked = now && !options.some(([value]) => value === now) ? [[now, now] as const] : [];
  return h(
    "label",
    { "data-key": inline ?? title, class: inline === null ? null : "inline" },
    h("span", { class: inline === null ? null : "quiet" }, title),
    h("select", { onchange: chosen }, [...options, ...asked].map(([value, words]) => h("option", { value, selected: value === (now ?? "") }, words))),
  );
}

export function modelChoice(app: App, now: string | null, change: (value: string) => void): HTMLElement {
  return choice("Model", now, [["", "all"], ...(models(app) ?? []).map(({ name }) => [name, name] as const)], change);
}

export function text(title: string, now: string | null, placeholder: string, change: (value: string) => void): HTMLElement {
  const typed = (event: Event): void => change((event.currentTarget as HTMLInputElement).value.trim());
  return h(
    "label",
    { "data-key": title },
    h("span", {}, title),
    h("input", { type: "search", value: now ?? "", placeholder, autocomplete: "off", onchange: typed }),
  );
}
