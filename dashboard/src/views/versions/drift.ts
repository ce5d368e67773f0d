/** How far recent inputs have drifted from those that `latest` was trained on. */

import type { App } from "../../app/app";
import { drift, drifts, latest } from "../../app/queries";
import type { Drift, FeatureDrift, Model, Version } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { count, decimal } from "../../page/format";
import { badge, loading, press, section, table } from "../parts/parts";

/**
 * null unless a job has trained `latest`. The daemon compares in a process of its own: on request,
 * or if it has found drift before.
 */
export function driftView(app: App, model: Model, list: Version[]): HTMLElement | null {
  const fetched = latest(app, model, list);
  if (fetched === null || fetched.job_id === null) return null;
  const asked = app.draft(`drift:${model.name}`, () => ({ isSo: false }));
  const isShown = asked.isSo || drifts(app, [model]).length > 0;
  const found = isShown ? drift(app, model) : null;
  return section(
    "Drift",
    { id: "drift" },
    found === undefined ? loading() : found === null ? introduction(fetched) : reportView(found),
    h(
      "div",
      { class: "buttons", "data-key": "buttons" },
      press(app, {
        name: `drift:${model.name}`,
        label: isShown ? "Compare again" : "Compare",
        about: "recent inputs",
        stale: ["/v1/drifts"],
        run: async () => {
          asked.isSo = true;
          return null;
        },
      }),
    ),
  );
}

function introduction({ version }: Version): HTMLElement {
  return h("p", { class: "quiet", "data-key": "introduction" }, `Compares recent inputs with those that version ${version} was trained on.`);
}

function reportView({ version, drifted, training_samples: before, recent_samples: recent, compared, features }: Drift): Child[] {
  const samples = `${count(recent)} recent samples, ${count(before)} that version ${version} was trained on`;
  if (drifted === null) return [h("p", { "data-key": "few" }, `Too few samples to compare: ${samples}.`)];
  return [
    h("p", { "data-key": "found" }, drifted ? badge("held", "drifted") : badge("latest", "no drift"), h("span", { class: "quiet" }, ` ${samples}`)),
    table("Drift by feature", ["Feature", "PSI", "Limit", "Mean, then → now"], features.map(featureRow)),
    compared > features.length && h("p", { class: "quiet", "data-key": "rest" }, `and ${count(compared - features.length)} more that have drifted less`),
  ];
}

function featureRow({ input, feature, name, psi, limit, training_mean: before, recent_mean: now }: FeatureDrift): HTMLElement {
  const [state, said] = psi > limit ? ["blocks", "above its limit"] : ["holds", "within its limit"];
  return h(
    "tr",
    { "data-key": `${input}-${feature}` },
    h("th", { scope: "row" }, h("span", { class: `sign ${state}`, role: "img", "aria-label": said }), name ?? `${input}[${feature}]`),
    h("td", { class: "number" }, decimal(psi)),
    h("td", { class: "number" }, decimal(limit)),
    h("td", { class: "number" }, `${decimal(before)} → ${decimal(now)}`),
  );
}
