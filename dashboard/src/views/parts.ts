/** Small pieces that several views share. */

import { type Child, h } from "../dom";
import { ago } from "../format";
import { type State } from "../state";
import type { Blocker, Job, JobState } from "../types";
import { condition, STATES } from "../words";

/** What a click on a button asks for. */
export type Action =
  | "train"
  | "pause"
  | "resume"
  | "cancel"
  | "pause-all"
  | "resume-all"
  | "show"
  | "forget"
  | "dismiss";

const LOCAL = new Set<Action>(["show", "forget", "dismiss"]);

/** A button; subject: the model's name or the job's id. What asks the daemon needs its answer. */
export function button(
  state: State,
  action: Action,
  subject: string | number,
  label: string,
  about: string,
): HTMLElement {
  const name = `${action}:${subject}`;
  return h(
    "button",
    {
      type: "button",
      "data-action": action,
      "data-subject": subject,
      "data-key": name,
      "aria-label": about === "" ? null : `${label} ${about}`,
      disabled: state.pending.has(name) || (state.connection === "lost" && !LOCAL.has(action)),
    },
    label,
  );
}

export function badge(kind: JobState | "promoted" | "held", text?: string): HTMLElement {
  return h("span", { class: `badge ${kind}` }, text ?? STATES[kind as JobState]);
}

export function blockers(blocked: Blocker[]): Child {
  return blocked.map((each) =>
    h("li", { "data-key": each.condition }, h("strong", {}, condition(each)), ` ${each.detail}`),
  );
}

export function when(time: string): HTMLElement {
  const then = new Date(time);
  return h("time", { datetime: time, title: then.toLocaleString() }, ago(then, new Date()));
}

/** The buttons that a job's state allows. */
export function jobButtons(state: State, job: Job): HTMLElement[] {
  const about = `job ${job.id}`;
  const isPausedByHand = job.blocked_by.some((each) => each.condition === "paused_by_person");
  return [
    ...(job.state === "running" ? [button(state, "pause", job.id, "Pause", about)] : []),
    ...(job.state === "paused" && isPausedByHand
      ? [button(state, "resume", job.id, "Resume", about)]
      : []),
    button(state, "cancel", job.id, "Cancel", about),
  ];
}

export function fact(name: string, value: Child): HTMLElement {
  return h("div", { class: "fact", "data-key": name }, h("dt", {}, name), h("dd", {}, value));
}
