/** The device: the verdict, and each condition with its limit. */

import type { App } from "../../app/app";
import { type Child, h } from "../../page/dom";
import { clock } from "../../page/format";
import { type Condition, conditionsOf } from "../../page/conditions";
import { device, policy } from "../../app/queries";
import type { Device, Policy } from "../../daemon/types";
import { historyView } from "./history";
import { policyView } from "./policy";
import { blockers, heading, loading, press, section, table } from "../parts/parts";

const STALE = ["/v1/device", "/v1/jobs"];
const SNOOZES = [
  { label: "Snooze 30 min", body: { minutes: 30 } },
  { label: "Snooze 2 h", body: { minutes: 120 } },
  { label: "Snooze until morning", body: { until: "morning" } },
];

export function deviceView(app: App): Child[] {
  const [now, rules] = [device(app), policy(app)];
  if (now === undefined || rules === undefined) return [heading("Device"), loading()];
  if (now === null || rules === null) return [heading("Device")];
  return [
    heading("Device"),
    verdictView(app, now),
    section("Conditions", { id: "conditions" }, conditionsView(now, rules, { isShort: false })),
    historyView(app, rules),
    policyView(app, rules),
  ];
}

/** The verdict in one line, and the controls of manual pauses. */
export function verdictView(app: App, now: Device): HTMLElement {
  const asked = (path: string, method: "post" | "remove", body?: object) => async (): Promise<null> => {
    await (method === "post" ? app.api.post(path, body) : app.api.remove(path));
    return null;
  };
  // Then it may have been on hold for longer.
  const isByHand = now.paused || now.snoozed_until !== null;
  return h(
    "section",
    { class: `verdict ${now.eligible ? "good" : "held"}`, "data-key": "verdict", "aria-label": "Verdict" },
    h("div", { class: "verdict-head" }, h("p", {}, h("strong", {}, verdict(now)), `${isByHand ? ", not allowed" : ""} since ${clock(now.since)}`)),
    h(
      "div",
      { class: "buttons" },
      now.snoozed_until === null && !now.paused
        ? SNOOZES.map(({ label, body }) =>
            press(app, { name: `snooze:${label}`, label, stale: STALE, run: asked("/v1/snooze", "post", body) }),
          )
        : null,
      now.snoozed_until === null
        ? null
        : press(app, { name: "unsnooze", label: "End snooze", stale: STALE, run: asked("/v1/snooze", "remove") }),
      now.paused
        ? press(app, { name: "resume-all", label: "Resume all training", stale: STALE, run: asked("/v1/resume", "post") })
        : press(app, { name: "pause-all", label: "Pause all training", stale: STALE, run: asked("/v1/pause", "post") }),
    ),
    !now.eligible && blockers(now.blocked_by),
  );
}

function verdict(now: Device): string {
  if (now.eligible) return "Training is allowed now";
  if (now.paused) return "All training is paused";
  if (now.snoozed_until !== null) return "Training is snoozed";
  return "Training is on hold";
}

/** isShort: only conditions with a limit or that block. */
export function conditionsView(now: Device, rules: Policy, { isShort }: { isShort: boolean }): HTMLElement {
  const shown = conditionsOf(now, rules).filter(({ limit, isBlocking }) => !isShort || limit !== null || isBlocking);
  const columns = ["Condition", "Now", "Limit", ...(isShort ? [] : ["Source"])];
  return table("Table of conditions", columns, shown.map((each) => conditionRow(each, isShort)), "conditions");
}

function conditionRow({ name, title, value, note, limit, isBlocking, share }: Condition, isShort: boolean): HTMLElement {
  const state = limit === null ? "off" : isBlocking ? "blocks" : value === null ? "unknown" : "holds";
  const said = { off: "no limit", blocks: "blocks training", unknown: "unknown, does not block training", holds: "met" }[state];
  return h(
    "tr",
    { class: state, "data-key": name },
    h("th", { scope: "row" }, h("span", { class: `sign ${state}`, role: "img", "aria-label": said }), title),
    h(
      "td",
      { class: "number", title: note === "" ? null : note },
      value ?? "unknown",
      share !== null && h("meter", { min: 0, max: 1, value: share, "aria-hidden": "true" }),
    ),
    h("td", {}, limit ?? "–"),
    !isShort && h("td", { class: "quiet" }, note),
  );
}
