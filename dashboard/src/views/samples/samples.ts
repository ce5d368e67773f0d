/** A model's samples: filtered, labelled by keyboard, added by dropping files, deleted. */

import type { App } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { count, plural } from "../../page/format";
import { label, labelAgain, undo } from "../../app/labelling";
import { classesOf, numberNamesOf } from "../../app/labels";
import { fileKind, play } from "../../app/pictures";
import { stats } from "../../app/queries";
import { to } from "../../app/route";
import { modelPath } from "../../daemon/api";
import { canShow, filterOf, filterTo, list, SHOWN, showOf, workOf } from "../../app/samples";
import { dropped, send } from "../../app/uploads";
import type { Model, Sample } from "../../daemon/types";
import { boxesView } from "./boxes";
import { brushView } from "./brush";
import { askDelete, askDeleteAll, chosen } from "./deletion";
import { gridView } from "./grid";
import { labellingView } from "./spans";
import { choice } from "../parts/filters";
import { dropping, loading, opener, outcome } from "../parts/parts";
import { downloader } from "../parts/save";
import { uploadView } from "./upload";

const KEYED_CLASSES = 10;
/** Ids of samples that a message lists. */
const NAMED = 5;

export function samplesTab(app: App, model: Model): HTMLElement {
  const listed = list(app, model);
  return h(
    "div",
    {
      class: "stack",
      "data-key": "samples",
      ...dropping((transfer) => void dropped(transfer).then((files) => send(app, model, files))),
    },
    filters(app, model, (listed?.items.length ?? 0) > 0),
    uploadView(app, model),
    toolbar(app, model, listed?.items ?? []),
    labellingView(app, model, listed),
    brushView(app, model, listed),
    boxesView(app, model, listed),
    !listed
      ? loading(listed)
      : listed.items.length === 0
        ? h("p", { class: "quiet", "data-key": "none" }, none(app))
        : gridView(app, model, listed),
  );
}

function none(app: App): string {
  if (showOf(app) === "suspect") return "The current version finds no doubtful labels.";
  return app.route.query.size === 0 ? "No samples yet. Drop files here to add some." : "No matching samples.";
}

function filters(app: App, model: Model, hasItems: boolean): HTMLElement {
  const canFilter = filterOf(app) !== null;
  const classes = classesOf(model);
  const select = (name: string, title: string, options: [string, string][]): HTMLElement =>
    choice(title, app.route.query.get(name), options, (value) => filterTo(app, model.name, { [name]: value || null }), name);
  const shows = Object.entries(SHOWN).filter(([key]) => canShow(model, key)).map(([key, { title }]): [string, string] => [key === "all" ? "" : key, title]);
  return h(
    "div",
    { class: "toolbar", "data-key": "filters", role: "group", "aria-label": "Filter" },
    select("show", "Show", shows),
    canFilter && classes.length > 0 ? select("label", "Label", [["", "any"], ...classes.map((name): [string, string] => [name, name])]) : null,
    canFilter && fileKind(model) === "text" ? search(app, model) : null,
    canFilter ? select("split", "Split", [["", "any"], ["train", "train"], ["validation", "validation"], ["base", "base set"]]) : null,
    h("p", { class: "quiet", role: "status" }, counted(app, model)),
    h(
      "div",
      { class: "buttons", "data-key": "all" },
      downloader(app, modelPath(model.name, "/samples/archive"), `${model.name}-samples.zip`, {
        name: `archive:${model.name}`,
        label: "Download all",
        about: `samples of ${model.name}`,
        said: `Samples of ${model.name} downloaded.`,
      }),
      canFilter && hasItems && opener("ask-delete-all", "Delete all …", () => askDeleteAll(app, model), "that the filter shows", "danger"),
    ),
  );
}

function search(app: App, model: Model): HTMLElement {
  return h(
    "label",
    { class: "inline", "data-key": "text" },
    h("span", { class: "quiet" }, "Text"),
    h("input", {
      type: "search",
      dir: "auto",
      maxlength: 256,
      value: app.route.query.get("text") ?? "",
      onchange: (event: Event) => filterTo(app, model.name, { text: (event.currentTarget as HTMLInputElement).value || null }),
    }),
  );
}

function counted(app: App, model: Model): string {
  const known = stats(app, model.name);
  if (!known) return "";
  const aside = known.quarantined > 0 ? `, ${count(known.quarantined)} quarantined` : "";
  return `${plural(known.train + known.validation + known.base, "labelled sample")}, ${count(known.unlabelled)} unlabelled${aside}`;
}

/** Actions on the selected samples, or on the one that has the keyboard focus. */
function toolbar(app: App, model: Model, items: Sample[]): HTMLElement {
  const work = workOf(app, model.name);
  const ids = chosen(app, model);
  const one = ids.length === 1 ? (ids[0] ?? null) : null;
  const aside = items.find(({ id }) => id === one)?.quarantine;
  const classes = classesOf(model);
  const isBusy = app.state.pending.has(`label:${model.name}`) || app.state.connection === "lost";
  const give = (value: unknown): void => void label(app, model, chosen(app, model), value);
  return h(
    "div",
    { class: "toolbar sticky", "data-key": "toolbar", role: "group", "aria-label": "Labelling" },
    h("p", { class: "quiet number", role: "status" }, work.selected.size > 0 ? `${plural(work.selected.size, "sample")} selected` : `${count(items.length)} shown`),
    classes.slice(0, KEYED_CLASSES).map((name, index) =>
      h(
        "button",
        { type: "button", "data-key": `class-${index}`, disabled: isBusy || ids.length === 0, onclick: () => give(index) },
        h("kbd", {}, String((index + 1) % 10)),
        ` ${name}`,
      ),
    ),
    classes.length > KEYED_CLASSES ? otherClasses(classes, isBusy || ids.length === 0, give) : null,
    numberForm(model, isBusy || ids.length === 0, give),
    opener("unlabel", "No label", () => give(null), "", null, isBusy || ids.length === 0),
    h(
      "button",
      { type: "button", "data-key": "undo", disabled: isBusy || work.undo.length === 0, onclick: () => void undo(app, model) },
      h("kbd", {}, "U"),
      " Undo",
    ),
    items.length > 0 ? opener("select-all", work.selected.size > 0 ? "Select none" : "Select all", () => selectAll(app, model, items)) : null,
    one === null ? null : h("a", { class: "button", "data-key": "predict", href: to(["models", model.name, "try"], { sample: one }), "aria-label": `Predict sample ${one}` }, "Predict"),
    one !== null && fileKind(model) === "audio" ? opener("play", "Play", () => play(app, model, one), `sample ${one}`) : null,
    ids.length > 0 ? opener("ask-delete", "Delete …", () => askDelete(app, model), plural(ids.length, "sample"), "danger") : null,
    aside ? h("p", { class: "problem", "data-key": "aside" }, `Quarantined: ${aside}`) : null,
    outcome(app, `label:${model.name}`),
    unsavedView(app, model),
  );
}

/** Labels that the daemon did not answer to, and a button that sends them again. */
function unsavedView(app: App, model: Model): Child {
  const ids = [...workOf(app, model.name).unsaved.keys()];
  if (ids.length === 0 || app.state.pending.has(`label:${model.name}`)) return null;
  const named = `${ids.slice(0, NAMED).join(", ")}${ids.length > NAMED ? ", …" : ""}`;
  return h(
    "span",
    { class: "press", role: "alert", "data-key": "unsaved" },
    h("span", { class: "problem" }, `Not stored: the labels of ${plural(ids.length, "sample")} (${named}).`),
    h("button", { type: "button", "data-key": "store", disabled: app.state.connection === "lost", onclick: () => void labelAgain(app, model) }, "Store"),
  );
}

function otherClasses(classes: string[], disabled: boolean, give: (value: unknown) => void): Child {
  const choose = (event: Event): void => {
    const field = event.currentTarget as HTMLSelectElement;
    if (field.value !== "") give(Number(field.value));
    field.value = "";
  };
  return h(
    "select",
    { "aria-label": "Another class", disabled, onchange: choose },
    h("option", { value: "" }, "another class"),
    classes.slice(KEYED_CLASSES).map((name, index) => h("option", { value: index + KEYED_CLASSES }, name)),
  );
}

/** Numbers by name; those that are left empty stay as they are. null for a model whose labels have none. */
function numberForm(model: Model, disabled: boolean, give: (value: unknown) => void): Child {
  const names = numberNamesOf(model);
  if (names.length === 0) return null;
  const send = (event: SubmitEvent): void => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const filled = [...new FormData(form)].filter(([, value]) => value !== "");
    if (filled.length > 0) give(Object.fromEntries(filled.map(([name, value]) => [name, Number(value)])));
    form.reset();
  };
  return h(
    "form",
    { class: "toolbar", "data-key": "numbers", "aria-label": "Numbers of the label", onsubmit: send },
    names.map((name) => h("label", { "data-key": name }, name, " ", h("input", { name, type: "number", step: "any", size: 6 }))),
    h("button", { disabled }, "Set"),
  );
}

function selectAll(app: App, model: Model, items: Sample[]): void {
  const work = workOf(app, model.name);
  work.selected = work.selected.size > 0 ? new Set() : new Set(items.map(({ id }) => id));
  app.draw();
}
