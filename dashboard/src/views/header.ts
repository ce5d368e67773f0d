/** The head of the page: connection, the device's verdict, what went wrong. */

import { h } from "../dom";
import { clock } from "../format";
import type { Connection, State } from "../state";
import { blockers, button } from "./parts";

const CONNECTIONS: Record<Connection, string> = {
  connecting: "connecting",
  live: "live",
  polling: "live, asked every 2 s",
  lost: "no answer",
};

export function headerView(state: State): HTMLElement {
  return h(
    "header",
    { class: "top" },
    h("h1", {}, "Hone"),
    h(
      "p",
      { class: `connection ${state.connection}`, role: "status" },
      CONNECTIONS[state.connection],
    ),
    h(
      "nav",
      { "aria-label": "Page" },
      h("a", { href: "/docs" }, "API"),
      h(
        "button",
        { type: "button", class: "plain", "data-action": "forget", "data-subject": "" },
        "Forget token",
      ),
    ),
  );
}

export function noticesView(state: State): HTMLElement {
  return h(
    "div",
    { class: "notices", "aria-live": "polite" },
    state.connection === "lost" &&
      h(
        "div",
        { class: "notice bad", "data-key": "lost" },
        h("strong", {}, "The daemon does not answer."),
        ` What you see is from ${state.lostSince === null ? "before" : clock(state.lostSince)}. Trying again …`,
      ),
    state.notice !== null &&
      h(
        "div",
        { class: "notice bad", "data-key": "notice" },
        h("span", {}, state.notice),
        button(state, "dismiss", "", "Dismiss", "this message"),
      ),
  );
}

/** Nothing where the daemon tells no verdict. */
export function deviceView(state: State): HTMLElement | null {
  const { device } = state;
  if (device === null) return null;
  const held = device.paused
    ? "All training is paused by hand."
    : "Training waits until the device can spare it.";
  const verdict = device.eligible ? "The device can spare training now." : held;
  return h(
    "section",
    { class: `verdict ${device.eligible ? "good" : "held"}`, "data-key": "device", "aria-label": "Device" },
    h(
      "div",
      { class: "verdict-head" },
      h("p", {}, verdict),
      h("p", { class: "since" }, `since ${clock(device.since)}`),
      device.paused
        ? button(state, "resume-all", "", "Resume all training", "")
        : button(state, "pause-all", "", "Pause all training", ""),
    ),
    !device.eligible && h("ul", { class: "blockers" }, blockers(device.blocked_by)),
  );
}
