/** The timeline of a model's versions: metric, the gate's reason, promotion. */

import { modelPath, Refused } from "../../daemon/api";
import type { App } from "../../app/app";
import { staleOf } from "../../app/queries";
import { type Child, h, s } from "../../page/dom";
import { bytes, decimal, percent } from "../../page/format";
import { to } from "../../app/route";
import type { Model, Version } from "../../daemon/types";
import { type Measure, measureOf } from "../../page/words";
import { badge, confirm, opener, press, section, when } from "../parts/parts";
import { downloader } from "../parts/save";
import { openTrained } from "./trained";
import { variantsView } from "./variants";

export function timeline(app: App, model: Model, list: Version[]): HTMLElement {
  return section(
    "Versions",
    { id: "versions" },
    holdView(app, model),
    h("ol", { class: "timeline", reversed: true }, list.map((version) => versionView(app, model, list, version))),
  );
}

/** Since when `latest` is held, and how to release it. */
function holdView(app: App, model: Model): HTMLElement | null {
  const { name, held_since: since } = model;
  if (since === null) return null;
  return h(
    "div",
    { class: "notice held", "data-key": "hold" },
    h("p", {}, "Held since ", when(since), ": new versions are not promoted."),
    press(app, {
      name: `release:${name}`,
      label: "Release",
      about: name,
      stale: staleOf(model),
      run: () => app.api.post(modelPath(name, "/release")).then(() => "The gate decides on promotion again."),
    }),
  );
}

function versionView(app: App, model: Model, list: Version[], version: Version): HTMLElement {
  const number = version.version;
  const isLatest = model.latest_version === number;
  const judged = measureOf(model, list, version);
  return h(
    "li",
    { "data-key": `version-${number}`, class: isLatest ? "latest" : null, "aria-label": `Version ${number}` },
    h(
      "div",
      { class: "row-head" },
      h("h3", {}, `Version ${number}`),
      badges(version, isLatest),
      h("p", { class: "quiet" }, when(version.created_at), ` · ${bytes(version.size_bytes)}`, jobOf(version)),
    ),
    judged === null ? null : measureView(judged, version.promoted || version.job_id === null),
    h("p", { class: "reason" }, version.job_id === null ? "The model as it was registered." : version.reason),
    h("div", { class: "buttons" }, moves(app, model, version, isLatest)),
    variantsView(app, model, version),
  );
}

function jobOf({ job_id: id }: Version): Child[] {
  return id === null ? [] : [" · ", h("a", { href: to(["jobs", id]) }, `job ${id}`)];
}

function badges(version: Version, isLatest: boolean): Child[] {
  const others = version.aliases.filter((alias) => alias !== "latest");
  return [
    isLatest && badge("latest", "latest"),
    version.job_id !== null && !version.promoted && badge("held", "not promoted"),
    version.job_id !== null && version.promoted && !isLatest && badge("queued", "promoted earlier"),
    others.map((alias) => h("span", { class: "badge" }, alias)),
  ];
}

function moves(app: App, model: Model, version: Version, isLatest: boolean): Child[] {
  const { name } = model;
  const number = version.version;
  const about = `version ${number}`;
  return [
    isLatest
      ? number > 1 &&
        opener(`ask-rollback:${name}`, "Roll back …", () => askRollback(app, model, version), about)
      : press(app, {
          name: `promote:${name}:${number}`,
          label: "Promote",
          about,
          stale: staleOf(model),
          run: () => app.api.put(modelPath(name, "/aliases/latest"), { version: number }).then(() => `Apps now fetch version ${number} of ${name}.`),
        }),
    compareLink(model, number),
    version.job_id !== null && opener(`trained:${name}:${number}`, "Trained on …", () => openTrained(app, model, number), about),
    downloader(app, modelPath(name, `/versions/${number}/model.onnx`), `${name}-${number}.onnx`, { name: `download:${name}:${number}`, label: "Download", about }),
  ];
}

/** A comparison with what apps fetch, or with the previous version. */
function compareLink({ name, latest_version: latest }: Model, number: number): Child {
  const other = latest !== null && latest !== number ? latest : number - 1;
  if (other < 1) return null;
  const [a, b] = latest === number ? [other, number] : [latest ?? other, number];
  return h("a", { class: "button", href: to(["models", name, "compare"], { a, b }), "aria-label": `Compare version ${b} with version ${a}` }, `Compare with ${a}`);
}

function askRollback(app: App, model: Model, { version }: Version): void {
  confirm(app, {
    title: `Roll back ${model.name}?`,
    detail: `Apps immediately fetch the version before version ${version}. New versions are not promoted until you release the hold.`,
    no: `Keep version ${version}`,
    yes: "Roll back",
    name: `rollback:${model.name}`,
    stale: staleOf(model),
    run: async () => {
      // The daemon goes back from whatever is `latest`, which somebody else may have moved.
      const { latest_version: latest } = await app.api.get<Model>(modelPath(model.name));
      if (latest !== version) throw new Refused(409, "", `Apps fetch version ${latest} by now, not version ${version}: nothing was changed`);
      const now = await app.api.post<Version>(modelPath(model.name, "/rollback"));
      return `Apps now fetch version ${now.version} of ${model.name}.`;
    },
  });
}

/** isGood: whether it passed the gate. */
function measureView({ name, isShare, after, before }: Measure, isGood: boolean): HTMLElement {
  const show = isShare ? percent : decimal;
  return h(
    "div",
    { class: `measure ${isGood ? "good" : "held"}` },
    h("p", {}, h("span", { class: "value" }, show(after)), ` validation ${name}`),
    before !== null && h("p", { class: "quiet" }, change(show(after), show(before), after > before)),
    isShare && bar(after, before),
  );
}

function change(after: string, before: string, isUp: boolean): string {
  if (after === before) return "unchanged";
  return `${isUp ? "up" : "down"} from ${before}`;
}

/** The value as a bar, the baseline as a notch in it. */
function bar(after: number, before: number | null): SVGElement {
  return s(
    "svg",
    { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", width: 100, height: 8 }),
    s("rect", { class: "fill", width: after * 100, height: 8 }),
    before !== null && s("rect", { class: "notch", x: before * 100 - 0.4, width: 0.8, height: 8 }),
  );
}
