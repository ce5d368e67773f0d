/** Base set and reference set: what versions are judged on besides the validation samples. */

import type { App, Said } from "../../app/app";
import { fileKind } from "../../app/pictures";
import { staleOf } from "../../app/queries";
import { typed } from "../../app/uploads";
import { modelPath } from "../../daemon/api";
import type { Accepted, BaseSet, Model, ReferenceSet, Removed } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { count, plural } from "../../page/format";
import { settingsForm } from "../parts/form";
import { confirm, fact, fileButton, loading, opener, outcome, press, remover, section, when } from "../parts/parts";

export function baseSetView(app: App, model: Model): HTMLElement {
  const { name } = model;
  const set = app.resources.read<BaseSet>(modelPath(name, "/base-set"));
  return section(
    "Base set",
    { id: "base-set" },
    h("p", { class: "quiet" }, "Samples of the original task. Jobs replay a share of them; the gate judges versions on the held-out part, which no job trains on."),
    set ? baseFacts(set) : loading(set),
    h("details", { "data-key": "add" }, h("summary", {}, "Add samples"), h("div", { class: "form" }, additions(app, model))),
    set != null && set.samples > 0 && h("div", { class: "buttons" }, opener(`ask-remove-base:${name}`, "Remove …", () => askRemoveBase(app, model), "the base set", "danger")),
  );
}

function baseFacts({ samples, held_out: held, labels, changed_at: changed }: BaseSet): Child {
  if (samples === 0) return h("p", { "data-key": "none" }, "None. While it learns from this device, the model forgets part of what it could do before, unless it has samples of its original task.");
  return [
    h("dl", { class: "facts" }, fact("samples", count(samples)), fact("held out", count(held)), changed !== null && fact("changed", when(changed))),
    labels.length > 0 && h("p", { class: "quiet", "data-key": "labels" }, labels.map(({ name, label, count: number }) => `${name ?? label} ${count(number)}`).join(", ")),
  ];
}

function told({ accepted, duplicates }: Accepted): Said {
  return `Added to the base set: ${plural(accepted, "new sample")}, and ${count(duplicates)} that the model already had.`;
}

function additions(app: App, model: Model): Child[] {
  const { name } = model;
  const path = modelPath(name, "/base-set");
  const send = (file: File): void => void app.act(`base-file:${name}`, staleOf(model), () => app.api.upload<Accepted>(path, typed(file)).then(told));
  return [
    settingsForm(app, {
      name: `base-first:${name}`,
      groups: [{ title: "The model’s own samples", settings: [{ name: "first", title: "Use the model’s first labelled samples", kind: "number", placeholder: "how many" }] }],
      values: { first: null },
      save: "Add them",
      stale: staleOf(model),
      send: async (given) => told(await app.api.post<Accepted>(path, given, true)),
    }),
    h(
      "div",
      { class: "buttons", "data-key": "file" },
      fileButton("Choose a file", send, { accept: ".zip,.npz,.csv,.json", disabled: app.state.pending.has(`base-file:${name}`) }),
      h("p", { class: "quiet" }, `a sample archive (.zip)${fileKind(model) === null ? ", .npz, .csv or .json" : fileKind(model) === "text" ? ", .csv or .json" : ""}; every sample needs a label`),
      outcome(app, `base-file:${name}`),
    ),
  ];
}

function askRemoveBase(app: App, model: Model): void {
  const { name } = model;
  confirm(app, {
    title: `Remove the base set of ${name}?`,
    detail: "Samples taken from the model return to their former split; those uploaded for the base set are deleted. Jobs no longer replay anything, and the gate judges on the other samples.",
    yes: "Remove the base set",
    name: `remove-base:${name}`,
    stale: staleOf(model),
    run: async () => {
      const gone = await app.api.remove<Removed>(modelPath(name, "/base-set"), true);
      return `Base set removed: ${plural(gone.given_back, "sample")} returned, ${count(gone.deleted)} deleted.`;
    },
  });
}

export function referenceView(app: App, model: Model): HTMLElement {
  const { name } = model;
  const set = app.resources.read<ReferenceSet>(modelPath(name, "/reference"));
  const freeze = () => app.api.put<ReferenceSet>(modelPath(name, "/reference")).then(({ samples }) => `The reference set has ${plural(samples, "sample")}.`);
  const isFrozen = set?.frozen_at != null;
  return section(
    "Reference set",
    { id: "reference" },
    h("p", { class: "quiet" }, "A frozen selection of validation samples, so that the gate also judges every version on the same samples. Samples that are deleted or moved to training drop out."),
    set === undefined ? loading() : referenceFacts(set),
    h(
      "div",
      { class: "buttons" },
      press(app, { name: `freeze:${name}`, label: isFrozen ? "Freeze the current validation samples instead" : "Freeze the validation samples", about: `of ${name}`, stale: staleOf(model), run: freeze }),
      isFrozen && remover(app, {
        label: "Remove …",
        about: "the reference set",
        title: `Remove the reference set of ${name}?`,
        detail: "Its samples are kept. The gate then uses only the validation samples.",
        yes: "Remove the reference set",
        name: `remove-reference:${name}`,
        remove: () => app.api.remove(modelPath(name, "/reference")),
        stale: staleOf(model),
        said: "Reference set removed.",
      }),
    ),
  );
}

function referenceFacts(set: ReferenceSet | null): Child {
  if (set === null || set.frozen_at === null) return h("p", { "data-key": "none" }, "None. The gate uses only the validation samples, which change as samples arrive.");
  return h("dl", { class: "facts" }, fact("samples", count(set.samples)), fact("frozen", when(set.frozen_at)));
}
