/** Samples as a grid of pictures or a table of values; only the rows on the screen exist. */

import type { App } from "../../app/app";
import { h, s } from "../../page/dom";
import { decimal, percent } from "../../page/format";
import { takesBoxes } from "../../app/boxes";
import { label, undo } from "../../app/labelling";
import { classesOf, labelText } from "../../app/labels";
import { takesMasks } from "../../app/masks";
import { showsPictures } from "../../app/pictures";
import { type Listed, loadMore, workOf } from "../../app/samples";
import type { Model, Sample } from "../../daemon/types";
import { sampleView } from "./content";
import { askDelete, chosen } from "./deletion";

/** The size of a cell with its gap, in pixels, as in dashboard.css. */
const PICTURE = { width: 128, height: 148, gap: 8 };
const VALUES = { width: Infinity, height: 44, gap: 0 };
const MOST_SHOWN = 200;
const ROWS_BEYOND = 2;
/** More is loaded when the list's end is this near. */
const ROWS_AHEAD = 10;
const CLASS_KEYS = "1234567890";

interface Window {
  columns: number;
  rows: number;
  height: number;
  first: number;
  last: number;
}

export function gridView(app: App, model: Model, listed: Listed): HTMLElement {
  const isImage = showsPictures(model);
  const isLabelledAbove = takesMasks(model) || takesBoxes(model) || model.target.span_types !== null;
  const { items } = listed;
  const { columns, rows, height, first, last } = windowOf(items.length, sizeOf(model));
  if (last > rows - ROWS_AHEAD) void loadMore(app, model, listed);
  const start = first * columns;
  const shown = items.slice(start, last * columns);
  // -1: unknown while more pages may follow.
  const size = listed.next === null ? items.length : -1;
  return h(
    "div",
    {
      id: "grid",
      class: `samples ${isLabelledAbove ? "below" : ""}`,
      role: "listbox",
      "aria-label": "Samples",
      "aria-multiselectable": "true",
      tabindex: 0,
      "aria-activedescendant": activeOf(app, model, shown),
      "data-key": "grid",
      onkeydown: (event: KeyboardEvent) => press(app, model, items, columns, event),
    },
    spacer(first * height, "above"),
    h(
      "div",
      { class: isImage ? "grid pictures" : "grid values", role: "presentation", "data-key": "cells" },
      shown.map((sample, at) => cell(app, model, sample, { place: start + at + 1, size })),
    ),
    spacer((rows - last) * height, "below"),
  );
}

function sizeOf(model: Model): typeof PICTURE {
  return showsPictures(model) ? PICTURE : VALUES;
}

/** Which rows are on the screen. */
function windowOf(count: number, { width, height, gap }: typeof PICTURE): Window {
  const grid = document.getElementById("grid");
  const room = grid?.clientWidth ?? document.getElementById("main")?.clientWidth ?? 800;
  const columns = Math.max(1, Math.floor((room + gap) / width));
  const rows = Math.ceil(count / columns);
  const top = grid?.getBoundingClientRect().top ?? 0;
  const before = Math.max(0, Math.floor(-top / height) - ROWS_BEYOND);
  const first = Math.min(before, Math.max(0, rows - 1));
  const seen = Math.ceil(window.innerHeight / height) + 2 * ROWS_BEYOND;
  const most = Math.max(1, Math.floor(MOST_SHOWN / columns));
  return { columns, rows, height, first, last: Math.min(rows, first + Math.min(seen, most)) };
}

/** Fills the space of rows that are not rendered; the CSP allows no inline style. */
function spacer(height: number, key: string): SVGElement {
  return s("svg", { class: "spacer", width: 1, height, "aria-hidden": "true", "data-key": key });
}

function activeOf(app: App, model: Model, shown: Sample[]): string | null {
  const { active } = workOf(app, model.name);
  return shown.some(({ id }) => id === active) ? `sample-${active}` : null;
}

/** place, size: in the whole list, for screen readers, since most of it is not rendered. */
function cell(app: App, model: Model, sample: Sample, { place, size }: { place: number; size: number }): HTMLElement {
  const work = workOf(app, model.name);
  const { id, label: value, split } = sample;
  const text = `${labelText(model, value)}${split === "validation" && value !== null ? " ·v" : ""}${work.unsaved.has(id) ? " …" : ""}`;
  const isSelected = work.selected.has(id);
  const choose = (event: PointerEvent): void => {
    if (event.shiftKey || event.ctrlKey || event.metaKey) toggle(work.selected, id);
    work.active = id;
    document.getElementById("grid")?.focus({ preventScroll: true });
    app.draw();
  };
  return h(
    "div",
    {
      id: `sample-${id}`,
      class: `cell ${work.active === id ? "active" : ""}`,
      role: "option",
      "aria-selected": isSelected ? "true" : "false",
      "aria-label": `Sample ${id}, ${text}`,
      "aria-posinset": place,
      "aria-setsize": size,
      "data-key": `sample-${id}`,
      title: sample.quarantine,
      onclick: choose,
    },
    sampleView(app, model, sample),
    h("span", { class: "caption" }, h("span", { class: "label", title: text }, text), h("span", { class: "quiet number" }, detail(model, sample))),
  );
}

/** Why the sample is at its place in the list. */
function detail(model: Model, { id, doubt, predicted, uncertainty, quarantine }: Sample): string {
  if (quarantine) return "quarantined";
  if (typeof doubt === "number") {
    return `${labelText(model, predicted)}? ${percent(doubt)}`;
  }
  return typeof uncertainty === "number" ? decimal(uncertainty) : `${id}`;
}

function toggle(set: Set<number>, id: number): void {
  if (!set.delete(id)) set.add(id);
}

/** Arrows move, space selects, digits label, U undoes, Delete asks for confirmation. */
function press(app: App, model: Model, items: Sample[], columns: number, event: KeyboardEvent): void {
  const work = workOf(app, model.name);
  const moves: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  const move = moves[event.key];
  const digit = CLASS_KEYS.indexOf(event.key);
  if (event.altKey || ((event.ctrlKey || event.metaKey) && event.key !== "z")) return;
  if (move !== undefined) step(app, model, items, columns, move);
  else if (event.key === " " && work.active !== null) toggle(work.selected, work.active);
  else if (event.key === "u" || event.key === "z") void undo(app, model);
  else if (event.key === "Delete") askDelete(app, model);
  else if (event.key === "Escape") work.selected.clear();
  else if (digit >= 0 && digit < classesOf(model).length && chosen(app, model).length > 0) {
    const isOne = work.selected.size === 0;
    void label(app, model, chosen(app, model), digit);
    if (isOne) step(app, model, items, columns, 1);
  } else return;
  event.preventDefault();
  app.draw();
}

function step(app: App, model: Model, items: Sample[], columns: number, by: number): void {
  const work = workOf(app, model.name);
  const now = items.findIndex(({ id }) => id === work.active);
  const next = now < 0 ? 0 : Math.min(items.length - 1, Math.max(0, now + by));
  work.active = items[next]?.id ?? null;
  app.draw();
  requestAnimationFrame(() => reveal(`sample-${work.active}`, Math.floor(next / columns) * sizeOf(model).height));
}

/** Scrolls to a cell. top: its place in the grid, where it is not rendered: keys may be faster than frames. */
function reveal(id: string, top: number): void {
  const cell = document.getElementById(id);
  const above = document.getElementById("grid")?.getBoundingClientRect().top ?? 0;
  if (cell === null) window.scrollBy(0, above + top - window.innerHeight / 2);
  else cell.scrollIntoView({ block: "nearest" });
}
