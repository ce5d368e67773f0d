/** Tokens: made, shown once, changed, rotated, revoked. */

import type { App } from "../../app/app";
import type { Token } from "../../daemon/types";
import { type Attributes, h } from "../../page/dom";
import { clock } from "../../page/format";
import { limit, type Setting, settingsForm } from "../parts/form";
import { confirm, loading, opener, remover, section, table, unseen, when } from "../parts/parts";

/** docs/tokens.md explains what each allows; a test compares them. */
const SCOPES = [
  "samples:write",
  "samples:read",
  "predict",
  "models:read",
  "train",
  "models:admin",
  "device:policy",
  "federate",
  "backup",
  "tokens:admin",
];
const TOKENS = ["/v1/tokens"];
/** Limits have names with this prefix, as in the pointers of errors. */
const LIMITS = "limits/";
const SETTINGS: readonly Setting[] = [
  { name: "name", title: "Name", kind: "text" },
  { name: "expires_at", title: "Expires", unit: "local time", kind: "time" },
  limit("limits/connections", "Maximum open requests"),
  limit("limits/uploads", "Maximum uploads at once"),
  limit("limits/registrations", "Maximum registrations at once"),
  limit("limits/predictions_per_second", "Maximum predictions per second"),
  limit("limits/bytes_per_day", "Maximum sent per day", "MiB", 2 ** 20),
];

export function tokensView(app: App): HTMLElement {
  const all = app.resources.read<Token[]>("/v1/tokens", (api) => api.all<Token>("/v1/tokens"));
  const now = new Date().toISOString();
  const shown = (all ?? []).filter(({ revoked_at: revoked, expires_at: ends }) => revoked === null && (ends === null || ends > now));
  return section(
    "Tokens",
    { id: "tokens" },
    all === undefined ? loading() : all && tokenTable(app, shown),
    h("div", { class: "buttons", "data-key": "new" }, opener("new-token", "Create a token …", () => askToken(app))),
  );
}

function tokenTable(app: App, shown: Token[]): HTMLElement {
  if (shown.length === 0) return h("p", { class: "quiet" }, "No tokens besides the one in admin.token.");
  const columns = ["Name", "Scopes", "Models", "Last used", "Expires", unseen("Actions")];
  return table("Table of tokens", columns, shown.map((token) => tokenRow(app, token)));
}

function tokenRow(app: App, token: Token): HTMLElement {
  const { id, name, scopes, models, last_used_at: used, expires_at: ends } = token;
  return h(
    "tr",
    { "data-key": `token-${id}`, "aria-label": name },
    h("th", { scope: "row" }, name),
    h("td", {}, scopes.length === SCOPES.length ? "all" : scopes.join(", ")),
    h("td", {}, models === null ? "all" : models.join(", ")),
    h("td", { class: "quiet" }, used === null ? "never" : when(used)),
    h("td", { class: "quiet" }, ends === null ? "never" : clock(ends)),
    h(
      "td",
      { class: "act" },
      h(
        "div",
        { class: "buttons" },
        opener(`ask-change:${id}`, "Change …", () => openChange(app, token), name),
        opener(`ask-rotate:${id}`, "Rotate …", () => askRotate(app, token), name),
        remover(app, {
          label: "Revoke …",
          about: name,
          title: `Revoke ${name}?`,
          detail: "It stops working immediately and permanently. Apps that use it need another one.",
          yes: "Revoke",
          name: `revoke:${id}`,
          remove: () => app.api.remove(`/v1/tokens/${id}`),
          stale: TOKENS,
          said: `${name} revoked.`,
        }),
      ),
    ),
  );
}

/** Name, end and limits. */
function openChange(app: App, { id, name, expires_at, limits }: Token): void {
  const values = Object.fromEntries(Object.entries(limits).map(([key, value]) => [`${LIMITS}${key}`, value]));
  const send = async (changed: Record<string, unknown>): Promise<string> => {
    const limited = Object.entries(changed).filter(([key]) => key.startsWith(LIMITS));
    const body: Record<string, unknown> = { limits: Object.fromEntries(limited.map(([key, value]) => [key.slice(LIMITS.length), value])) };
    // A name of null would stay as it is; an empty one is refused.
    if ("name" in changed) body.name = changed.name ?? "";
    if ("expires_at" in changed) body.expires_at = changed.expires_at;
    await app.api.patch(`/v1/tokens/${id}`, body);
    return `${name} saved.`;
  };
  app.open(() =>
    h(
      "div",
      { class: "question", "data-key": "change-token" },
      h("h2", { id: "dialog-title" }, `Change ${name}`),
      settingsForm(app, {
        name: `token:${id}`,
        groups: [{ title: name, settings: SETTINGS }],
        values: { name, expires_at, ...values },
        stale: TOKENS,
        close: () => app.close(),
        send,
      }),
    ),
  );
}

function askRotate(app: App, { id, name }: Token): void {
  let secret = "";
  confirm(app, {
    title: `Rotate ${name}?`,
    detail: "It gets a new secret, and the old one stops working immediately.",
    yes: "Rotate",
    name: `rotate:${id}`,
    stale: TOKENS,
    run: async () => {
      ({ secret } = await app.api.post<{ secret: string }>(`/v1/tokens/${id}/rotate`));
      await app.api.renew(`/v1/tokens/${id}`, secret);
      return null;
    },
    done: () => app.open(() => secretView(app, secret)),
  });
}

function askToken(app: App): void {
  let secret = "";
  const field = (title: string, attributes: Attributes): HTMLElement =>
    h("label", {}, h("span", {}, title), h("input", { type: "text", autocomplete: "off", ...attributes }));
  confirm(app, {
    title: "Create a token",
    fields: () => [
      h("div", { class: "fields" }, field("Name", { name: "name" }), field("Models, comma-separated", { name: "models", placeholder: "all" })),
      h("fieldset", {}, h("legend", {}, "Scopes"), h("div", { class: "fields" }, SCOPES.map((scope) => h("label", { class: "check" }, h("input", { type: "checkbox", name: "scope", value: scope }), scope)))),
    ],
    no: "Close",
    yes: "Create",
    kind: "primary",
    name: "make-token",
    stale: TOKENS,
    run: async (given) => {
      const models = String(given.get("models") ?? "").split(",").map((part) => part.trim()).filter(Boolean);
      const body = { name: given.get("name"), scopes: given.getAll("scope"), ...(models.length > 0 ? { models } : {}) };
      ({ secret } = await app.api.post<{ secret: string }>("/v1/tokens", body));
      return null;
    },
    done: () => app.open(() => secretView(app, secret)),
  });
}

function secretView(app: App, secret: string): HTMLElement {
  return h(
    "div",
    { class: "question", "data-key": "secret" },
    h("h2", { id: "dialog-title" }, "The token’s secret"),
    h("p", {}, "It is shown only once: the daemon stores nothing but its digest."),
    h("p", { class: "secret" }, h("code", {}, secret)),
    h("div", { class: "buttons" }, h("button", { type: "button", class: "primary", onclick: () => app.close() }, "Done")),
  );
}
