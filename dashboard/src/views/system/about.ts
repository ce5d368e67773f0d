/** What the daemon runs on, and the findings of its doctor. */

import type { App } from "../../app/app";
import type { System } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { bytes, clock } from "../../page/format";
import { loading, pairs, section } from "../parts/parts";

const SIGNS = { ok: "holds", warn: "warns", fail: "fails" };
const WORDS = { ok: "ok", warn: "warning", fail: "failed" };

export function aboutView(app: App): HTMLElement {
  const system = read(app);
  if (system === undefined) return section("About", { id: "about" }, loading());
  return section(
    "About",
    { id: "about" },
    pairs(Object.entries({ ...system?.versions, ...(system ? { "data folder": system.data_dir } : {}) })),
    h("p", {}, h("a", { href: "/docs" }, "API reference")),
  );
}

export function findingsView(app: App): HTMLElement {
  const system = read(app);
  const checks = [...(system?.checks ?? [])].sort((a, b) => worth(b.status) - worth(a.status));
  return section(
    "Installation",
    { id: "findings" },
    system === undefined ? loading() : h("ul", { class: "findings" }, checks.map(finding)),
    h("p", { class: "quiet" }, h("code", {}, "honed doctor"), " runs these checks in a terminal, and trains one step."),
  );
}

export function backupsView(app: App): Child {
  const system = read(app);
  if (!system) return null;
  const [newest] = system.backups;
  if (newest === undefined) return h("p", { class: "quiet" }, "The daemon has not backed up its database yet. It does so daily.");
  const older = system.backups.length - 1;
  return h("p", { class: "quiet" }, `Last backup of the database by the daemon: ${clock(newest.made_at)}, ${bytes(newest.size_bytes)}${older > 0 ? `; ${older} older kept` : ""}.`);
}

function finding({ name, status, detail, remedy }: System["checks"][number]): HTMLElement {
  return h(
    "li",
    { "data-key": name },
    h("span", { class: `sign ${SIGNS[status]}`, role: "img", "aria-label": WORDS[status] }),
    h("div", {}, h("strong", {}, name), ` ${detail}`, remedy !== null && h("p", { class: status === "fail" ? "problem" : "quiet" }, remedy)),
  );
}

function worth(status: "ok" | "warn" | "fail"): number {
  return { ok: 0, warn: 1, fail: 2 }[status];
}

function read(app: App): System | null | undefined {
  return app.resources.read<System>("/v1/system");
}
