/** Lists that are filtered and read page by page: events, and the audit log. */

import type { App } from "../../app/app";
import { type Api, withQuery } from "../../daemon/api";
import type { Page } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { opener } from "./parts";

export interface Listed<T> {
  /** undefined until the first page is loaded. */
  items: T[] | undefined;
  isWhole: boolean;
}

interface Shown extends Record<string, unknown> {
  pages: number;
}

/** The first pages of a list, as many as were requested. */
export function pagesOf<T>(app: App, path: string, size: number): Listed<T> {
  const { pages } = shownOf(app, path);
  const load = async (api: Api): Promise<Page<T>> => {
    const items: T[] = [];
    let cursor: string | null = null;
    for (let number = 0; number < shownOf(app, path).pages; number += 1) {
      const page: Page<T> = await api.get(withQuery(path, { limit: size, cursor }));
      items.push(...page.items);
      cursor = page.next;
      if (cursor === null) break;
    }
    return { items, next: cursor };
  };
  const read = app.resources.read<Page<T>>(withQuery(path, { pages }), load);
  const before = pages > 1 ? app.resources.peek<Page<T>>(withQuery(path, { pages: pages - 1 })) : undefined;
  const known = read ?? before;
  return { items: read === null ? [] : known?.items, isWhole: read === null || known?.next === null };
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

/** options: values with their labels. */
export function choice(title: string, now: string | null, options: readonly (readonly [string, string])[], change: (value: string) => void): HTMLElement {
  const chosen = (event: Event): void => change((event.currentTarget as HTMLSelectElement).value);
  return h(
    "label",
    { "data-key": title },
    h("span", {}, title),
    h("select", { onchange: chosen }, options.map(([value, words]) => h("option", { value, selected: value === (now ?? "") }, words))),
  );
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

function shownOf(app: App, path: string): Shown {
  return app.draft<Shown>(`pages:${path}`, () => ({ pages: 1 }));
}
