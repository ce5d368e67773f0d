/** The frame of every page: navigation, the running job, notices, toasts. */

import type { App } from "../app/app";
import { type Child, h } from "../page/dom";
import { clock } from "../page/format";
import { compareScript } from "../app/queries";
import { HOME, type Route, to } from "../app/route";
import type { Connection } from "../app/state";
import { addPage } from "./models/add";
import { deviceView } from "./device/device";
import { jobPage } from "./jobs/job";
import { jobsPage } from "./jobs/jobs";
import { modelPage } from "./models/model";
import { modelsPage } from "./models/models";
import { overviewPage } from "./overview";
import { missing } from "./parts/parts";
import { systemPage } from "./system/system";
import { pinnedView } from "./pinned";

const CONNECTIONS: Record<Connection, string> = {
  connecting: "connecting",
  live: "live",
  polling: "live, polling every 2 s",
  lost: "not responding",
};

interface Place {
  /** The first part of the address. */
  key: string;
  name: string;
  view: (app: App, parts: string[]) => Child;
  /** Parts of the longest address below it. */
  depth: number;
  /** Reached by a button, not by the navigation. */
  isHidden?: boolean;
}

const PLACES: readonly Place[] = [
  { key: "", name: "Overview", depth: 1, view: overviewPage },
  { key: "models", name: "Models", depth: 3, view: (app, parts) => (parts[1] ? modelPage(app, parts) : modelsPage(app)) },
  { key: "add", name: "Add a model", depth: 1, view: addPage, isHidden: true },
  { key: "jobs", name: "Jobs", depth: 2, view: (app, parts) => (parts[1] ? jobPage(app, Number(parts[1])) : jobsPage(app)) },
  { key: "device", name: "Device", depth: 1, view: deviceView },
  { key: "system", name: "System", depth: 2, view: systemPage },
];

function placeOf({ parts }: Route): Place | undefined {
  return PLACES.find(({ key, depth }) => key === (parts[0] ?? "") && parts.length <= depth);
}

export function titleOf(route: Route): string {
  const { parts } = route;
  const place = placeOf(route);
  return place && parts.length > 1 ? `${parts[1]} · ${place.name} · Hone` : `${place?.name ?? "Not found"} · Hone`;
}

/** forget: signs out. */
export function pageView(app: App, forget: () => void): Child[] {
  const { parts } = app.route;
  const place = placeOf(app.route);
  compareScript(app);
  // First: notices are about what these read.
  const [pinned, main] = [pinnedView(app), place ? place.view(app, parts) : missing("Page", HOME, "Overview")];
  return [
    navigation(app, place, forget),
    h(
      "div",
      { class: "content", "data-key": "content" },
      noticesView(app),
      pinned,
      h("main", { id: "main", "data-key": parts.join("/") }, main),
    ),
    toastsView(app),
  ];
}

function navigation(app: App, current: Place | undefined, forget: () => void): HTMLElement {
  const { connection } = app.state;
  return h(
    "header",
    { class: "side", "data-key": "side" },
    h("a", { class: "brand", href: HOME, "aria-label": "Hone, overview" }, "Hone"),
    h(
      "nav",
      { "aria-label": "Console" },
      PLACES.filter(({ isHidden }) => isHidden !== true).map((place) =>
        h(
          "a",
          { href: to(place.key === "" ? [] : [place.key]), "aria-current": place === current ? "page" : null },
          place.name,
        ),
      ),
    ),
    h(
      "div",
      { class: "aside" },
      h("p", { class: `connection ${connection}`, role: "status" }, CONNECTIONS[connection]),
      h("a", { href: "/docs" }, "API"),
      h("button", { type: "button", class: "plain", onclick: forget }, "Sign out"),
    ),
  );
}

function noticesView(app: App): HTMLElement {
  const { connection, lostSince } = app.state;
  return h(
    "div",
    { class: "notices", "aria-live": "polite", "data-key": "notices" },
    connection === "lost" &&
      h(
        "p",
        { class: "notice bad", "data-key": "lost" },
        h("strong", {}, "The daemon is not responding."),
        ` This page shows the state ${lostSince === null ? "before that" : `at ${clock(lostSince)}`}. Retrying …`,
      ),
    app.resources.problems().map((problem) => h("p", { class: "notice bad", "data-key": problem }, problem)),
  );
}

function toastsView(app: App): HTMLElement {
  return h(
    "div",
    { class: "toasts", role: "status", "data-key": "toasts" },
    app.state.toasts.map(({ id, text, link }) =>
      h(
        "p",
        { class: "toast", "data-key": `toast-${id}` },
        link === null ? text : h("a", { href: link }, text),
        h(
          "button",
          { type: "button", class: "plain", "aria-label": "Dismiss this message", onclick: () => app.forgetToast(id) },
          "×",
        ),
      ),
    ),
  );
}
