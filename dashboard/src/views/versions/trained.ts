/** The samples that a version was trained on. */

import type { App } from "../../app/app";
import { showsPictures } from "../../app/pictures";
import { to } from "../../app/route";
import { modelPath, withQuery } from "../../daemon/api";
import type { Model, SeenSamples } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { count, plural } from "../../page/format";
import { loading } from "../parts/parts";
import { sampleView } from "../samples/content";

const SHOWN = 12;

export function openTrained(app: App, model: Model, number: number): void {
  const path = withQuery(modelPath(model.name, `/versions/${number}/samples`), { limit: SHOWN });
  app.open(() => {
    const seen = app.resources.read<SeenSamples>(path);
    return h(
      "div",
      { class: "question", "data-key": "trained" },
      h("h2", { id: "dialog-title" }, `What version ${number} was trained on`),
      seen === undefined ? loading() : seen === null || seen.total === null ? h("p", {}, "Not known.") : seenView(app, model, seen, seen.total),
      h("div", { class: "buttons", "data-key": "buttons" }, h("button", { type: "button", class: "primary", onclick: () => app.close() }, "Close")),
    );
  });
}

function seenView(app: App, model: Model, { items }: SeenSamples, total: number): Child[] {
  return [
    h("p", { "data-key": "total" }, `${plural(total, "sample")}, including those of the versions it started from. `, h("a", { href: to(["models", model.name, "samples"]) }, "Samples of the model")),
    h(
      "ul",
      { class: showsPictures(model) ? "changed pictures" : "changed", "aria-label": "Samples", "data-key": "items" },
      items.map(({ id, deleted }) =>
        h(
          "li",
          { "data-key": id },
          h("span", { class: "quiet number" }, `sample ${id}`),
          deleted ? h("span", { class: "quiet" }, "deleted") : sampleView(app, model, { id, size_bytes: 1 }),
        ),
      ),
    ),
    total > items.length && h("p", { class: "quiet", "data-key": "rest" }, `and ${count(total - items.length)} more`),
  ];
}
