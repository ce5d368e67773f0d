/** What the buttons ask the daemon for. */

import { type Api, modelPath, Refused, Unreachable } from "./api";
import type { Part } from "./parts";
import type { State } from "./state";
import type { Job } from "./types";
import type { Action } from "./views/parts";

const STALE: readonly Part[] = ["device", "jobs", "curve"];

/**
 * Carries one click out; state.notice says what went wrong. Its button waits until the page shows
 * what came of it: a second click is dropped. reload: resolves once the parts are loaded anew.
 */
export async function act(
  api: Api,
  state: State,
  action: Action,
  subject: string,
  reload: (parts: readonly Part[]) => Promise<void>,
): Promise<void> {
  const name = `${action}:${subject}`;
  if (state.pending.has(name)) return;
  state.pending.add(name);
  state.notice = null;
  try {
    if (action === "pause-all" || action === "resume-all") {
      await api.post(`/v1/${action.replace("-all", "")}`);
    } else if (action === "train") {
      const job = await api.post<Job>(modelPath(subject, "/jobs"), {});
      if (state.chosen !== null) state.chosen = job.id;
    } else {
      await api.post<Job>(`/v1/jobs/${subject}/${action}`);
    }
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    state.notice = `${words(action, subject)} did not work: ${error.message}.`;
  } finally {
    await reload(STALE);
    state.pending.delete(name);
  }
}

function words(action: Action, subject: string): string {
  if (action === "train") return `Training ${subject}`;
  if (action === "pause-all") return "Pausing all training";
  if (action === "resume-all") return "Resuming all training";
  const verbs: Record<string, string> = { pause: "Pausing", resume: "Resuming", cancel: "Cancelling" };
  return `${verbs[action] ?? action} job ${subject}`;
}
