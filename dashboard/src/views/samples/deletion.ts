/** Deleting samples, and what that means for versions. */

import type { App } from "../../app/app";
import { h } from "../../page/dom";
import { plural } from "../../page/format";
import { remove, workOf } from "../../app/samples";
import type { Model } from "../../daemon/types";
import { outcome } from "../parts/parts";

/** The selected samples, else the one that has the keyboard focus. */
export function chosen(app: App, model: Model): number[] {
  const { selected, active } = workOf(app, model.name);
  if (selected.size > 0) return [...selected];
  return active === null ? [] : [active];
}

export function askDelete(app: App, model: Model): void {
  const ids = chosen(app, model);
  const name = `delete:${model.name}`;
  if (ids.length === 0) return;
  const press = async (event: Event): Promise<void> => {
    event.preventDefault();
    const retrain = new FormData(event.currentTarget as HTMLFormElement).has("retrain");
    if (await remove(app, model, ids, retrain)) app.close();
  };
  app.open(() =>
    h(
      "form",
      { class: "question", "data-key": name, onsubmit: (event: Event) => void press(event) },
      h("h2", { id: "dialog-title" }, `Delete ${plural(ids.length, "sample")}?`),
      h("p", {}, "Their bytes are overwritten. Versions that were trained on them stay, and remember what they learned."),
      ids.length === 1 &&
        h(
          "label",
          { class: "check" },
          h("input", { type: "checkbox", name: "retrain" }),
          "Train again without it, then delete the versions that saw it",
        ),
      outcome(app, name),
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", onclick: () => app.close() }, "Keep"),
        h("button", { type: "submit", class: "danger", disabled: app.state.pending.has(name) }, "Delete"),
      ),
    ),
  );
}
