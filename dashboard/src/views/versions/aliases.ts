/** Names of versions: set, moved and removed. */

import type { App } from "../../app/app";
import { staleOf } from "../../app/queries";
import { modelPath } from "../../daemon/api";
import type { Alias, Model, Version } from "../../daemon/types";
import { h } from "../../page/dom";
import { settingsForm } from "../parts/form";
import { loading, press, section } from "../parts/parts";

export function aliasesView(app: App, model: Model, list: Version[]): HTMLElement {
  const path = modelPath(model.name, "/aliases");
  const known = app.resources.read<Alias[]>(path, (api) => api.all<Alias>(path));
  return section(
    "Aliases",
    { id: "aliases" },
    known === undefined ? loading() : h("ul", { class: "rows", "data-key": "list" }, (known ?? []).map((each) => aliasItem(app, model, each))),
    h("details", { "data-key": "set" }, h("summary", {}, "Set an alias"), setForm(app, model, list)),
  );
}

function aliasItem(app: App, model: Model, { alias, version }: Alias): HTMLElement {
  return h(
    "li",
    { "data-key": alias, "aria-label": `Alias ${alias}` },
    h(
      "div",
      { class: "row-head" },
      h("strong", {}, alias),
      h("span", {}, `version ${version}`),
      alias === "latest"
        ? h("span", { class: "quiet" }, "what apps fetch")
        : press(app, {
            name: `unalias:${alias}`,
            label: "Remove",
            about: `alias ${alias}`,
            stale: staleOf(model),
            run: () => app.api.remove(modelPath(model.name, `/aliases/${encodeURIComponent(alias)}`)).then(() => `Alias ${alias} removed.`),
          }),
    ),
  );
}

function setForm(app: App, model: Model, list: Version[]): HTMLElement {
  const newest = String(list[0]?.version);
  return settingsForm(app, {
    name: `alias:${model.name}`,
    groups: [
      {
        title: "An alias",
        settings: [
          { name: "alias", title: "Alias", kind: "text", placeholder: "stable" },
          { name: "version", title: "Version", kind: "choice", options: list.map(({ version }) => [String(version), `version ${version}`]) },
        ],
      },
    ],
    values: { alias: null, version: newest },
    pointer: "/path",
    save: "Set the alias",
    stale: staleOf(model),
    send: async ({ alias, version = newest }) => {
      // The daemon refuses a space, and says what a name may be.
      const set = await app.api.put<Alias>(modelPath(model.name, `/aliases/${encodeURIComponent(String(alias ?? " "))}`), { version: Number(version) });
      return `${set.alias} is now version ${set.version}.`;
    },
  });
}
