/** The page after signing in. */

import { h } from "../dom";
import type { State } from "../state";
import { deviceView, headerView, noticesView } from "./header";
import { jobView } from "./job";
import { endedView, waitingView } from "./jobs";
import { modelsView } from "./models";

/** curveWidth: in pixels. */
export function pageView(state: State, curveWidth: number): HTMLElement {
  return h(
    "div",
    { id: "page", class: state.connection === "lost" ? "stale" : null },
    headerView(state),
    noticesView(state),
    state.models === null
      ? h("main", { class: "loading" }, h("p", { class: "quiet" }, "Asking the daemon …"))
      : h(
          "main",
          {},
          deviceView(state),
          jobView(state, curveWidth),
          modelsView(state),
          h("div", { class: "side", "data-key": "side" }, waitingView(state), endedView(state)),
        ),
  );
}
