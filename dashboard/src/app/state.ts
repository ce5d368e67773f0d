/** What the page shows besides what it has read from the API. */

import type { Fault } from "../daemon/types";

/** `live`: updated by events. `polling`: this daemon has no events. `lost`: it does not answer. */
export type Connection = "connecting" | "live" | "polling" | "lost";

/** The result of a failed action, shown next to its button. */
export interface Result {
  text: string;
  faults: readonly Fault[];
}

export interface Toast {
  id: number;
  text: string;
  /** Where it leads, null for nowhere. */
  link: string | null;
}

export interface State {
  connection: Connection;
  lostSince: Date | null;
  /** Actions under way, by the name of their button. */
  pending: Set<string>;
  /** Failed actions, by the name of their button. */
  results: Map<string, Result>;
  toasts: Toast[];
  /** The chart that the pointer is over, and the step. */
  hover: { chart: string; step: number } | null;
  /** Unsent forms, by their name. */
  drafts: Map<string, Record<string, unknown>>;
}

export function emptyState(): State {
  return {
    connection: "connecting",
    lostSince: null,
    pending: new Set(),
    results: new Map(),
    toasts: [],
    hover: null,
    drafts: new Map(),
  };
}
