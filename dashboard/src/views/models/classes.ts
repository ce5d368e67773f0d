/** A classifier's classes: named, added, renamed, merged and removed. */

import type { App, Said } from "../../app/app";
import { staleOf } from "../../app/queries";
import { modelPath, withQuery } from "../../daemon/api";
import { taskOf } from "../../daemon/tasks";
import type { Model, ModelClass, Page } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { count } from "../../page/format";
import { settingsForm } from "../parts/form";
import { badge, confirm, loading, opener, type Question, section } from "../parts/parts";

const MOST_READ = 1000;
const ROWS_SHOWN = 50;
/** What the removal of a class means. */
const UNTIL = "Existing versions keep it, and apps get it until a job has trained. The indices of later classes go down by one.";

/** null for a model that tells no classes apart. */
export function classesView(app: App, model: Model): HTMLElement | null {
  const { name, loss, target } = model;
  if (!taskOf(loss)?.hasClasses || target.num_classes === null) return null;
  if (target.classes === null) return section("Classes", { id: "classes" }, namesForm(app, model));
  const known = app.resources.read<Page<ModelClass>>(withQuery(modelPath(name, "/classes"), { limit: MOST_READ }));
  return section("Classes", { id: "classes" }, known ? classList(app, model, known) : loading(known), addForm(app, model));
}

function namesForm(app: App, model: Model): Child[] {
  const { name, target } = model;
  return [
    h("p", { class: "quiet" }, `The ${count(target.num_classes ?? 0)} classes have no names. With names, classes can be added and removed.`),
    settingsForm(app, {
      name: `names:${name}`,
      groups: [{ title: "Classes", settings: [{ name: "classes", title: "Names in the order of their indices", unit: "comma-separated", kind: "list" }] }],
      values: { classes: [] },
      stale: staleOf(model),
      send: (given) => app.api.patch(modelPath(name), given).then(() => `The classes of ${name} are named.`),
    }),
  ];
}

function addForm(app: App, model: Model): HTMLElement {
  return settingsForm(app, {
    name: `class:${model.name}`,
    groups: [{ title: "A new class", settings: [{ name: "name", title: "A new class", kind: "text" }] }],
    values: { name: null },
    save: "Add the class",
    stale: staleOf(model),
    send: (given) => app.api.post<ModelClass>(modelPath(model.name, "/classes"), given, true).then((made) => `Class ${made.name} added. Apps get it once a job has trained.`),
  });
}

function classList(app: App, model: Model, { items, next }: Page<ModelClass>): Child[] {
  const found = app.draft(`classes-found:${model.name}`, () => ({ text: "" }));
  const fits = items.filter(({ name }) => name.toLowerCase().includes(found.text.toLowerCase()));
  const search = (event: Event): void => {
    found.text = (event.currentTarget as HTMLInputElement).value;
    app.draw();
  };
  const left = fits.length - ROWS_SHOWN;
  return [
    items.length > ROWS_SHOWN && h("input", { type: "search", "aria-label": "Find a class", placeholder: "Find a class", "data-key": "find", oninput: search }),
    h("ul", { class: "rows", "data-key": "list" }, fits.slice(0, ROWS_SHOWN).map((each) => classItem(app, model, each))),
    left > 0 && h("p", { class: "quiet", "data-key": "left" }, `${count(left)} more${next === null ? "" : ` of the first ${count(MOST_READ)}`}`),
  ];
}

function classItem(app: App, model: Model, known: ModelClass): HTMLElement {
  const { name, train, validation, in_latest: isInLatest } = known;
  const button = (verb: string, ask: () => Question): HTMLElement =>
    opener(`${verb}:${name}`, `${verb} …`, () => confirm(app, ask()), name, "plain");
  return h(
    "li",
    { "data-key": `class-${name}`, "aria-label": `Class ${name}` },
    h(
      "div",
      { class: "row-head" },
      h("h3", {}, name),
      !isInLatest && badge("held", "not in latest"),
      h("p", { class: "quiet number" }, `${count(train)} train, ${count(validation)} validation`),
      h("div", { class: "buttons" }, button("Rename", () => renaming(app, model, known)), button("Merge", () => merging(app, model, known)), button("Remove", () => removing(app, model, known))),
    ),
  );
}

function renaming(app: App, model: Model, known: ModelClass): Question {
  return {
    title: `Rename ${known.name}`,
    detail: "Samples show the new name. Versions keep the name they were made with.",
    fields: () => field("Name", h("input", { name: "name", type: "text", value: known.name, autocomplete: "off" })),
    yes: "Rename",
    kind: "primary",
    ...common(model, `rename:${known.name}`),
    run: async (given) => {
      const { name } = await app.api.patch<ModelClass>(modelPath(model.name, `/classes/${encodeURIComponent(known.name)}`), { name: String(given.get("name")).trim() });
      return `${known.name} renamed to ${name}.`;
    },
  };
}

function merging(app: App, model: Model, known: ModelClass): Question {
  const others = (model.target.classes ?? []).filter((name) => name !== known.name);
  return {
    title: `Merge ${known.name} into another class`,
    detail: `Its samples are relabelled with the other class, and the head loses its row. ${UNTIL}`,
    fields: () => field("Into", h("select", { name: "into" }, others.map((name) => h("option", { value: name }, name)))),
    yes: "Merge the classes",
    ...common(model, `merge:${known.name}`),
    run: async (given): Promise<Said> => {
      const into = await app.api.post<ModelClass>(modelPath(model.name, `/classes/${encodeURIComponent(known.name)}/merge`), { into: given.get("into") }, true);
      return `${known.name} merged into ${into.name}.`;
    },
  };
}

function removing(app: App, model: Model, known: ModelClass): Question {
  return {
    title: `Remove the class ${known.name}?`,
    detail: `The head loses its row. ${UNTIL}`,
    fields: () => h("label", { class: "check" }, h("input", { type: "checkbox", name: "unlabel" }), "Keep its samples, without their label"),
    yes: "Remove the class",
    ...common(model, `remove:${known.name}`),
    run: async (given) => {
      const query = { unlabel: given.has("unlabel") ? "true" : null };
      await app.api.remove(withQuery(modelPath(model.name, `/classes/${encodeURIComponent(known.name)}`), query), true);
      return `Class ${known.name} removed.`;
    },
  };
}

function field(title: string, control: HTMLElement): HTMLElement {
  return h("div", { class: "fields" }, h("label", {}, h("span", {}, title), control));
}

function common(model: Model, name: string): Pick<Question, "name" | "stale"> {
  return { name: `${name}:${model.name}`, stale: staleOf(model) };
}
