/** The audit log: who changed, exported or was refused what. */

import type { App } from "../../app/app";
import { pagesOf } from "../../app/queries";
import { to } from "../../app/route";
import { withQuery } from "../../daemon/api";
import type { AuditEntry } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { clock, count, moment } from "../../page/format";
import { choice, filters, pagesView, text } from "../parts/filters";
import { section, table } from "../parts/parts";

const KINDS = [["", "everything"], ["change", "changes"], ["export", "exports"], ["refusal", "refusals"], ["samples", "samples"]] as const;
const FIELDS = ["kind", "who", "action", "model"] as const;
const COLUMNS = ["When", "Who", "What", "Model", "Path", "From"];
const PAGE = 100;

export function auditView(app: App): Child {
  const now = Object.fromEntries(FIELDS.map((name) => [name, app.route.query.get(name) || null]));
  const path = withQuery("/v1/audit", now);
  const go = (change: Record<string, string>): void =>
    app.go(to(["system", "audit"], { ...now, ...change }), { isSame: true });
  return section(
    "Audit log",
    { id: "audit" },
    filters(
      choice("Entries", now.kind ?? null, KINDS, (kind) => go({ kind })),
      text("Who", now.who ?? null, "admin, token 3, nobody", (who) => go({ who })),
      text("What", now.action ?? null, "delete_model", (action) => go({ action })),
      text("Model", now.model ?? null, "all", (model) => go({ model })),
    ),
    pagesView(app, path, pagesOf<AuditEntry>(app, path, PAGE), "No matching entries.", (items) => table("Table of the audit log", COLUMNS, items.map(row), "audit")),
  );
}

function row({ id, at, who, address, action, path, model, code, count: times }: AuditEntry): HTMLElement {
  return h(
    "tr",
    { "data-key": `entry-${id}` },
    h("td", { class: "quiet" }, h("time", { datetime: at, title: moment(new Date(at)) }, clock(at))),
    h("td", {}, who),
    h("th", { scope: "row" }, action.replaceAll("_", " "), code !== null && h("span", { class: "problem" }, ` ${code}`), times > 1 && ` × ${count(times)}`),
    h("td", {}, model === null ? "–" : h("a", { href: to(["models", model]) }, model)),
    h("td", { class: "quiet" }, h("code", {}, path)),
    h("td", { class: "quiet" }, address),
  );
}
