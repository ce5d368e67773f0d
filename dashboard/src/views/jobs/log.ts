/** The last lines of a job's children: at once if it failed, else on demand. */

import type { App } from "../../app/app";
import { jobLog } from "../../app/queries";
import type { Job } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { loading, opener, scrolled, section } from "../parts/parts";

export function logView(app: App, { id, state, restarts }: Job): HTMLElement {
  const turned = app.draft<{ isOpen?: boolean }>(`log:${id}`, () => ({}));
  const isOpen = turned.isOpen ?? (state === "failed" || restarts > 0);
  const turn = (): void => {
    turned.isOpen = !isOpen;
    app.draw();
  };
  return section(
    "Log",
    { id: "log" },
    isOpen && linesView(app, id),
    h("div", { class: "buttons" }, opener("turn-log", isOpen ? "Hide the log" : "Show the log", turn)),
  );
}

function linesView(app: App, id: number): Child {
  const log = jobLog(app, id);
  if (log === undefined) return loading();
  const lines = log?.lines ?? [];
  if (lines.length === 0) return h("p", { class: "quiet" }, "No output.");
  return scrolled(
    "Lines of the log",
    h(
      "ol",
      { class: "log" },
      lines.map(({ at, source, text }) =>
        h("li", { class: source }, h("time", { datetime: at, class: "quiet" }, new Date(at).toTimeString().slice(0, 8)), h("code", {}, text)),
      ),
    ),
  );
}
