/** Consent to federated training, its terms, and what was spent of the privacy budget. */

import type { App } from "../../app/app";
import { staleOf } from "../../app/queries";
import { modelPath } from "../../daemon/api";
import type { Federation, Model } from "../../daemon/types";
import { h } from "../../page/dom";
import { count, decimal } from "../../page/format";
import { type Setting, settingsForm } from "../parts/form";
import { fact, loading, section } from "../parts/parts";

/** Consent, and what rounds have spent. */
const number = (name: string, title: string, placeholder: string): Setting => ({ name, title, kind: "number", placeholder });
const SETTINGS: readonly Setting[] = [
  { name: "allowed", title: "Take part in federated training", kind: "flag" },
  { name: "superlink", title: "SuperLink of the federation", kind: "text", placeholder: "its address, or any name" },
  number("epsilon", "Privacy budget (ε)", "none"),
  number("delta", "Delta (δ)", "0.00001"),
  number("min_samples", "Minimum samples per update", "16"),
  number("max_rounds_per_day", "Maximum rounds per day", "no limit"),
  number("clip_norm", "Maximum norm of an update", "as the round requests"),
  number("noise_multiplier", "Minimum noise", "0"),
  { name: "personalize", title: "Fine-tuning of received parameters, as JSON", kind: "json" },
];

export function federationView(app: App, { name }: Model): HTMLElement {
  const known = app.resources.read<Federation>(modelPath(name, "/federation"));
  return section(
    "Federation",
    { id: "federation" },
    h("p", { class: "quiet" }, "The federation sends parameters; this device trains them on the model’s samples, which never leave it, and returns an update. Without a budget, the federation decides whether updates are noised."),
    known ? spentView(known) : loading(known),
    known != null &&
      settingsForm(app, {
        name: `federation:${name}`,
        groups: [{ title: "Federation", settings: SETTINGS }],
        values: { ...known },
        pointer: "/federation",
        stale: staleOf({ name }),
        send: (changed) => app.api.patch(modelPath(name), { federation: changed }).then(() => `Federation of ${name} saved.`),
      }),
  );
}

function spentView({ epsilon, spent, rounds_today: today }: Federation): HTMLElement {
  return h(
    "dl",
    { class: "facts" },
    fact(
      "budget spent",
      spent.epsilon === null ? "no bound: an update had no noise" : `ε ${decimal(spent.epsilon)}${epsilon === null ? "" : ` of ${decimal(epsilon)}`}`,
    ),
    fact("updates with noise", count(spent.rounds)),
    fact("without noise", count(spent.rounds_without_noise)),
    fact("rounds today", count(today)),
  );
}
