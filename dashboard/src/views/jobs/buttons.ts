/** The buttons of a job. */

import type { App } from "../../app/app";
import type { Job } from "../../daemon/types";
import { confirm, opener, press } from "../parts/parts";

const JOBS = ["/v1/jobs", "/v1/device"];

/** The buttons that a job's state allows. */
export function jobButtons(app: App, job: Job): HTMLElement[] {
  const about = `job ${job.id}`;
  const move = (verb: string, label: string, body?: object): HTMLElement =>
    press(app, {
      name: `${verb}${body ? "-anyway" : ""}:${job.id}`,
      label,
      about,
      stale: JOBS,
      run: () => app.api.post(`/v1/jobs/${job.id}/${verb}`, body).then(() => null),
    });
  const isPausedByHand = job.blocked_by.some((each) => each.condition === "paused_by_person");
  const isHeld = job.blocked_by.some((each) => !["another_job", "paused_by_person"].includes(each.condition));
  const waits = job.state === "queued" || job.state === "paused";
  return [
    ...(job.state === "running" ? [move("pause", "Pause")] : []),
    ...(job.state === "paused" && isPausedByHand ? [move("resume", "Resume")] : []),
    ...(waits && isHeld && !job.ignore_policy ? [move("resume", "Run anyway", { ignore_policy: true })] : []),
    cancelButton(app, job),
  ];
}

function cancelButton(app: App, job: Job): HTMLElement {
  const ask = (): void =>
    confirm(app, {
      title: `Cancel job ${job.id}?`,
      detail: "It stops after the current step and produces no version. It cannot be resumed.",
      no: "Keep it",
      yes: "Cancel the job",
      name: `cancel:${job.id}`,
      stale: JOBS,
      run: () => app.api.post(`/v1/jobs/${job.id}/cancel`).then(() => `Job ${job.id} cancelled.`),
    });
  const isOff = app.state.pending.has(`cancel:${job.id}`) || app.state.connection === "lost";
  return opener(`ask-cancel:${job.id}`, "Cancel", ask, `job ${job.id}`, null, isOff);
}
