/** The system: the installation and its data, tokens, events, the audit log. */

import type { App } from "../../app/app";
import { to } from "../../app/route";
import type { Verification } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { bytes, clock, plural } from "../../page/format";
import { heading, loading, missing, press, section, tabs } from "../parts/parts";
import { downloader } from "../parts/save";
import { aboutView, backupsView, findingsView } from "./about";
import { auditView } from "./audit";
import { eventsView } from "./events";
import { tokensView } from "./tokens";

/** Pages below it, by the second part of the address. */
const TABS: readonly { key: string | undefined; name: string; view: (app: App) => Child }[] = [
  { key: undefined, name: "Installation", view: installationView },
  { key: "events", name: "Events", view: eventsView },
  { key: "audit", name: "Audit log", view: auditView },
];

export function systemPage(app: App, parts: string[]): Child[] {
  const tab = TABS.find(({ key }) => key === parts[1]);
  if (tab === undefined) return missing("Page", to(["system"]), "Installation");
  const all = TABS.map(({ key, name }) => ({ name, href: to(["system", ...(key ? [key] : [])]) }));
  return [heading("System"), tabs("Pages of the system", all, tab.name), tab.view(app)];
}

function installationView(app: App): Child {
  return [
    h("div", { class: "columns", "data-key": "columns" }, h("div", { class: "stack" }, findingsView(app)), h("div", { class: "stack" }, dataView(app), aboutView(app))),
    tokensView(app),
  ];
}

function dataView(app: App): HTMLElement {
  const state = app.resources.read<Verification>("/v1/verification");
  return section(
    "Stored data",
    { id: "data" },
    restoredView(app),
    backupsView(app),
    state ? h("p", { class: state.damaged || state.error ? "problem" : "quiet", role: "status" }, verified(state)) : loading(state),
    h(
      "div",
      { class: "buttons" },
      press(app, {
        name: "verify",
        label: "Verify all",
        stale: ["/v1/verification"],
        disabled: state?.running === true,
        run: () => app.api.post("/v1/verification").then(() => "Verification started: all stored data is compared with its digests."),
      }),
      downloader(app, "/v1/backup", `honed-${new Date().toISOString().slice(0, 10)}.zip`, {
        name: "backup",
        label: "Download a backup",
        said: "Backup downloaded. Restore it with honed restore.",
      }),
    ),
  );
}

function verified({ running, read_bytes: read, total_bytes: total, error, verified_at: at, damaged }: Verification): string {
  if (running) return `${bytes(read)} of ${total === null ? "…" : bytes(total)} read`;
  if (error !== null) return `The last verification failed: ${error}.`;
  if (damaged) {
    const samples = Object.values(damaged.samples).reduce((sum, each) => sum + each, 0);
    return `Damaged and quarantined: ${plural(samples, "sample")}, ${plural(Object.keys(damaged.files).length, "file")}.`;
  }
  return at === null ? "Not verified yet." : `No damage found, ${clock(at)}.`;
}

/** A notice that a damaged database was replaced by a backup. */
function restoredView(app: App): Child {
  const ready = app.resources.read<{ database_restored: { backup_from: string } | null }>("/readyz");
  const restored = ready?.database_restored;
  return restored ? h("p", { class: "problem" }, `The database was damaged and replaced by its backup of ${clock(restored.backup_from)}.`) : null;
}
