/** All that the page shows. Loaders write it, views read it. */

import type { Device, Job, Model, Point, Version } from "./types";

/** `live`: told by events. `polling`: this daemon has no events. `lost`: nobody answers. */
export type Connection = "connecting" | "live" | "polling" | "lost";

export interface KnownModel {
  model: Model;
  /** The newest version, promoted or not. */
  newest: Version | null;
}

/** tailCursor: of the list's last page, which is asked for again since it grows. */
export interface Curve {
  /** Of the job when it was read: a restart writes points anew. */
  restarts: number;
  complete: Point[];
  tail: Point[];
  tailCursor: string | null;
}

export interface State {
  connection: Connection;
  lostSince: Date | null;
  /** null until the first answer. */
  models: Map<string, KnownModel> | null;
  device: Device | null;
  running: Job[];
  waiting: Job[];
  ended: Job[];
  /** The job that a person asked to see, null for the one that runs or ran last. */
  chosen: number | null;
  curves: Map<number, Curve>;
  /** What went wrong with the last thing that a person asked for. */
  notice: string | null;
  /** Actions under way, by the name of their button. */
  pending: Set<string>;
}

export function emptyState(): State {
  return {
    connection: "connecting",
    lostSince: null,
    models: null,
    device: null,
    running: [],
    waiting: [],
    ended: [],
    chosen: null,
    curves: new Map(),
    notice: null,
    pending: new Set(),
  };
}

/** The job whose curve is shown. */
export function shownJob(state: State): Job | null {
  const all = [...state.running, ...state.waiting, ...state.ended];
  const chosen = all.find((job) => job.id === state.chosen);
  return chosen ?? state.running[0] ?? state.ended[0] ?? null;
}
