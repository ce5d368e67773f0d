/** Events, newest first and live, filtered by the type and model in the address. */

import type { App } from "../../app/app";
import { pagesOf } from "../../app/queries";
import { to } from "../../app/route";
import { withQuery } from "../../daemon/api";
import type { Told } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { clock, moment } from "../../page/format";
import { choice, filters, modelChoice, pagesView } from "../parts/filters";
import { section } from "../parts/parts";

/** Prefixes of types with their subjects; docs/events.md lists the types. */
const FAMILIES: readonly (readonly [string, string])[] = [
  ["job.", "jobs"],
  ["version.", "versions"],
  ["samples.", "samples"],
  ["model.", "models"],
  ["base", "bases and base sets"],
  ["follow.", "vendors’ sources"],
  ["checkpoint.", "checkpoints"],
  ["alias.", "aliases"],
  ["device.", "the device"],
  ["policy.", "the policy"],
  ["trigger.", "triggers"],
  ["variant.", "variants"],
  ["prediction.", "predictions"],
  ["storage.", "stored data"],
];
const PAGE = 100;
const BAD = /failed|damaged|lost|drifted|quarantined|refused/;

export function eventsView(app: App): Child {
  const { query } = app.route;
  const [type, model] = [query.get("type"), query.get("model")];
  const path = withQuery("/v1/events/history", { type: type || null, model: model || null });
  const go = (change: Record<string, string>): void =>
    app.go(to(["system", "events"], { type, model, ...change }), { isSame: true });
  return section(
    "Events",
    { id: "events" },
    filters(
      choice("Events of", type, [["", "everything"], ...FAMILIES], (value) => go({ type: value })),
      modelChoice(app, model, (value) => go({ model: value })),
    ),
    pagesView(app, path, pagesOf<Told>(app, path, PAGE), "No matching events.", (items) => h("ol", { class: "happenings" }, items.map(eventRow))),
  );
}

function eventRow({ id, type, model, created_at: at, data }: Told): HTMLElement {
  return h(
    "li",
    { "data-key": `event-${id}` },
    h("time", { datetime: at, class: "quiet", title: moment(new Date(at)) }, clock(at)),
    h("strong", { class: BAD.test(type) ? "problem" : null }, type),
    model !== null && h("a", { href: to(["models", model]) }, model),
    typeof data.job_id === "number" && h("a", { href: to(["jobs", data.job_id]) }, `job ${data.job_id}`),
    h("span", { class: "quiet facts-of" }, told(data)),
  );
}

/** The data as text, without what the row already shows. */
function told(data: Record<string, unknown>): string {
  return Object.entries(data)
    .filter(([name, value]) => name !== "job_id" && value !== null && value !== "")
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${plain(value)}`)
    .join(" · ");
}

function plain(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(plain).join("; ");
  if (typeof value !== "object" || value === null) return String(value);
  const { detail } = value as { detail?: unknown };
  return typeof detail === "string" ? detail : JSON.stringify(value);
}
