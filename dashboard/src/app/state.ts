/** What the page shows beside what it has read of the API. */

import type { Fault } from "../daemon/api";

/** `live`: told by events. `polling`: this daemon has no events. `lost`: nobody answers. */
export type Connection = "connecting" | "live" | "polling" | "lost";

/** What came of an action, beside the button that asked for it. */
export interface Result {
  text: string;
  faults: readonly Fault[];
}

export interface Toast {
  id: number;
  text: string;
  /** Where it leads to, null for nowhere. */
  link: string | null;
}

export interface State {
  connection: Connection;
  lostSince: Date | null;
  /** Actions under way, by the name of their button. */
  pending: Set<string>;
  /** Actions that did not work, by the name of their button. */
  results: Map<string, Result>;
  toasts: Toast[];
  /** The chart that the pointer is over, and the step. */
  hover: { chart: string; step: number } | null;
  /** What was begun on a page and not sent: forms, by their name. */
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
