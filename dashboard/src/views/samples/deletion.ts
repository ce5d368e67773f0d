/** Deleting samples, and what that means for versions. */

import type { App } from "../../app/app";
import { staleOf } from "../../app/queries";
import { filterOf, remove, removeAll, SHOWN, showOf, workOf } from "../../app/samples";
import type { Model } from "../../daemon/types";
import { h } from "../../page/dom";
import { plural } from "../../page/format";
import { confirm, type Question } from "../parts/parts";

/** The selected samples, else the one that has the keyboard focus. */
export function chosen(app: App, model: Model): number[] {
  const { selected, active } = workOf(app, model.name);
  if (selected.size > 0) return [...selected];
  return active === null ? [] : [active];
}

export function askDelete(app: App, model: Model): void {
  const ids = chosen(app, model);
  if (ids.length === 0) return;
  const fields = ids.length === 1 ? { fields: () => retrainField("it") } : {};
  ask(app, model, { title: `Delete ${plural(ids.length, "sample")}?`, ...fields }, (retrain) => remove(app, model, ids, retrain));
}

/** Deletes what the page's filter finds, whether or not it is loaded. */
export function askDeleteAll(app: App, model: Model): void {
  const filter = filterOf(app);
  if (filter === null) return;
  const { label, split, text } = filter;
  const show = showOf(app) === "all" ? null : SHOWN[showOf(app)].title.toLowerCase();
  const conditions = [show, label && `label ${label}`, split && `split ${split}`, text && `“${text}” in the text`].filter(Boolean).join(", ");
  const title = conditions === "" ? `Delete all samples of ${model.name}?` : `Delete all samples with: ${conditions}?`;
  ask(app, model, { title, fields: () => retrainField("them") }, (retrain) => removeAll(app, model, filter, retrain));
}

function ask(app: App, { name }: Model, about: Pick<Question, "title" | "fields">, run: (retrain: boolean) => ReturnType<Question["run"]>): void {
  confirm(app, {
    ...about,
    detail: "Their bytes are overwritten. Versions trained on them are kept, with what they learned.",
    no: "Keep",
    yes: "Delete",
    name: `delete:${name}`,
    stale: [...staleOf({ name }), "/v1/jobs"],
    run: (given) => run(given.has("retrain")),
  });
}

function retrainField(them: string): HTMLElement {
  return h(
    "label",
    { class: "check" },
    h("input", { type: "checkbox", name: "retrain" }),
    `Retrain without ${them}, then delete the versions trained on ${them}`,
  );
}
