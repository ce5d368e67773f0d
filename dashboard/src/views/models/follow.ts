/** The vendor's source that new bases come from, what came of asking it, and what the vendor learns. */

import type { App } from "../../app/app";
import { staleOf } from "../../app/queries";
import { modelPath } from "../../daemon/api";
import type { Follow, Model, ModelBase } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { count } from "../../page/format";
import { limit, type Setting, settingsForm } from "../parts/form";
import { fact, loading, remover, section, when } from "../parts/parts";

const SETTINGS: readonly Setting[] = [
  limit("every_hours", "Ask every", "hours"),
  limit("percent", "Share of devices that take what is offered", "%"),
  { name: "report", title: "Send one report on each upgrade to", kind: "text", placeholder: "nobody" },
];

export function followView(app: App, model: Model): HTMLElement {
  const { name } = model;
  const path = modelPath(name, "/follow");
  const source = app.resources.read<ModelBase>(modelPath(name, "/base"))?.source;
  const known = typeof source === "string" ? app.resources.read<Follow>(modelPath(name, "/follow")) : null;
  if (source === undefined || known === undefined) return section("Vendor’s source", { id: "follow" }, loading());
  if (known === null) {
    const about = "None. A model can take new bases that its vendor has signed from a registry or a web server: ";
    return section("Vendor’s source", { id: "follow" }, h("p", { class: "quiet" }, about, h("code", {}, "honed models follow")));
  }
  const { keys, name: named, hosts, every_hours: every, percent, report } = known;
  const terms = { source, keys, name: named, hosts, every_hours: every, percent, report };
  return section(
    "Vendor’s source",
    { id: "follow" },
    h("p", {}, h("code", {}, source)),
    facts(known),
    [...known.blocked_by.map(({ detail }) => detail), ...(known.error ? [known.error.detail] : [])].map((detail) => h("p", { class: "quiet", "data-key": detail }, detail)),
    settingsForm(app, {
      name: `follow:${name}`,
      groups: [{ title: "Vendor’s source", settings: SETTINGS }],
      values: terms,
      stale: staleOf(model),
      send: async (changed) => {
        const wanted = { ...terms, ...changed };
        await app.api.put(path, { ...wanted, report: wanted.report || null });
        return `The source of ${name} is saved, and asked now.`;
      },
    }),
    reportView(known),
    h("div", { class: "buttons" }, remover(app, {
      label: "Unfollow …",
      about: "the source",
      title: `Unfollow the source of ${name}?`,
      detail: "New bases no longer come by themselves. An upgrade that has begun goes on.",
      yes: "Unfollow the source",
      name: `unfollow:${name}`,
      remove: () => app.api.remove(modelPath(name, "/follow")),
      stale: staleOf(model),
      said: "Unfollowed.",
    })),
  );
}

function facts({ offered, taken, asked_at: asked, next_at: next, asking }: Follow): HTMLElement {
  return h(
    "dl",
    { class: "facts" },
    fact("offered", offered === null ? "nothing yet" : `version ${count(offered.version)}`),
    fact("taken", taken === null ? "none" : `version ${count(taken)}`),
    fact("asked", asking ? "now" : asked === null ? "not yet" : when(asked)),
    next !== null && fact("next", when(next)),
  );
}

/** The report itself, so that it can be read before it is sent. */
function reportView({ report, report_body: body }: Follow): Child {
  const says = "The model, version and digest of the base; whether the gate promoted it; the gate’s metric before and after, to two digits; the number of training samples, rounded down to a power of two. Never a sample, a label or a parameter.";
  return h(
    "details",
    { "data-key": "report" },
    h("summary", {}, report === null ? "What a report would say" : "What a report says"),
    h("p", { class: "quiet" }, says),
    body === null ? h("p", { class: "quiet" }, "No upgrade from this source has ended yet.") : h("pre", {}, JSON.stringify(body, null, 2)),
  );
}
