/** The samples that two versions predict differently, with their pictures or values. */

import type { App } from "../../app/app";
import { type Box, isLikely, takesBoxes, without } from "../../app/boxes";
import { labelText } from "../../app/labels";
import { takesMasks } from "../../app/masks";
import { picture, showsPictures } from "../../app/pictures";
import { prediction } from "../../app/queries";
import type { Changed, Comparison, Model } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { count, decimal, percent } from "../../page/format";
import { opener, section } from "../parts/parts";
import { boxedView, sampleView } from "../samples/content";
import { arrayView } from "./answer";

const SHOWN_FIRST = 8;
const TITLES: Record<Comparison["by"], Record<"worse" | "better", string>> = {
  class: { worse: "Right before, wrong now", better: "Wrong before, right now" },
  share: { worse: "Wrong in more places", better: "Wrong in fewer places" },
  absolute: { worse: "Larger error", better: "Smaller error" },
  loss: { worse: "Larger loss", better: "Smaller loss" },
};

export function changedView(app: App, model: Model, known: Comparison, side: "worse" | "better"): HTMLElement {
  const { total, items } = known[side];
  const draft = app.draft<{ shown: number }>(`changed:${model.name}:${known.versions.join(":")}:${side}`, () => ({ shown: SHOWN_FIRST }));
  const shown = items.slice(0, draft.shown);
  const more = (): void => {
    draft.shown += 4 * SHOWN_FIRST;
    app.draw();
  };
  const title = `${TITLES[known.by][side]} (${count(total)})`;
  return section(
    title,
    { id: side },
    items.length === 0
      ? h("p", { class: "quiet" }, "None.")
      : h("ul", { class: showsPictures(model) ? "changed pictures" : "changed", "aria-label": title }, shown.map((each) => changedItem(app, model, known, each))),
    shown.length < items.length ? h("div", { class: "buttons" }, opener(`more-${side}`, "Show more", more)) : null,
    shown.length === items.length && total > items.length && h("p", { class: "quiet" }, `and ${count(total - items.length)} more; the API lists up to 500`),
  );
}

function changedItem(app: App, model: Model, known: Comparison, sample: Changed): HTMLElement {
  const plain = sampleView(app, model, { id: sample.id, size_bytes: 1 });
  const { seen, found } = foundOn(app, model, known, sample.id);
  return h(
    "li",
    { "data-key": `changed-${sample.id}` },
    takesBoxes(model) && seen !== null ? seen : [plain, seen],
    h("span", { class: "says" }, h("span", { class: "quiet number" }, `sample ${sample.id}`), says(model, known, sample), found),
  );
}

/** The masks that both versions predict, or the photo with the boxes, and how these differ; null for other models. */
function foundOn(app: App, model: Model, { versions: [first = 1, second = 1] }: Comparison, id: number): { seen: Child; found: Child } {
  const nothing = { seen: null, found: null };
  if (!takesBoxes(model) && !takesMasks(model)) return nothing;
  const [then, now] = [first, second].map((version) => prediction(app, model, id, version)?.predictions[0]);
  if (!then || !now) return nothing;
  if (takesMasks(model)) return { seen: [maskView(model, first, then.label), maskView(model, second, now.label)], found: null };
  const [before, after] = [then, now].map(({ boxes }) => ((boxes ?? []) as Box[]).filter(isLikely)) as [Box[], Box[]];
  const [more, less] = [without(after, before), without(before, after)];
  const kinds = new Map([...after.map((each): [Box, string] => [each, more.includes(each) ? "chosen" : "thin"]), ...less.map((each): [Box, string] => [each, "lost"])]);
  const shown = picture(app, model.name, { id, size_bytes: 1 }, true);
  return {
    seen: shown ? boxedView(model, shown, [...after, ...less], { kinds }) : null,
    found: h("span", { "data-key": "found" }, `finds ${count(more.length)} more (thick), ${count(less.length)} less (dashed)`),
  };
}

function maskView(model: Model, version: number, label: unknown): Child {
  return Array.isArray(label) ? arrayView(`version ${version}`, label, model.target.num_classes) : null;
}

function says(model: Model, { by, classes, versions: [first, second] }: Comparison, sample: Changed): Child[] {
  // A version may know other classes than the model does now.
  const answer = (value: unknown): string =>
    typeof value === "number" ? (classes?.[value] ?? String(value)) : value === null ? "–" : labelText(model, value);
  const shown = by === "share" ? percent : decimal;
  const error = (value: number | null): string => (value === null ? "–" : shown(value));
  const row = (name: string, value: string): HTMLElement => h("span", { "data-key": name }, h("span", { class: "quiet" }, `${name} `), h("strong", {}, value));
  if (by === "share" || by === "loss") return [row(`version ${first}`, error(sample.before_error)), row(`version ${second}`, error(sample.after_error))];
  return [
    row("label", answer(sample.label)),
    row(`version ${first}`, `${answer(sample.before)}${by === "class" ? "" : ` (off by ${error(sample.before_error)})`}`),
    row(`version ${second}`, `${answer(sample.after)}${by === "class" ? "" : ` (off by ${error(sample.after_error)})`}`),
  ];
}
