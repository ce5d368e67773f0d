/** The daemon's findings about a file, or about two versions. */

import type { Metrics, Model } from "./types";

/** A sample that two versions predict differently; docs/promotion.md explains it. */
export interface Changed {
  id: number;
  label: unknown;
  before: unknown;
  after: unknown;
  before_error: number | null;
  after_error: number | null;
}

export interface Comparison {
  model: string;
  versions: [number, number];
  samples: number;
  left_out: number;
  by: "class" | "share" | "absolute" | "loss";
  classes: string[] | null;
  before: Metrics;
  after: Metrics;
  worse: { total: number; items: Changed[] };
  better: { total: number; items: Changed[] };
}

/** The diagnosis of a file; docs/models.md explains it. */
export interface Diagnosis {
  ready: boolean;
  problems: { pointer: string; detail: string }[];
  opset: number | null;
  producer: string;
  operators: number;
  inputs: Tensor[];
  outputs: Tensor[];
  loss: string;
  output: string | null;
  target: Model["target"] | null;
  head: { weight: string; bias: string | null; features: string; classes: number } | null;
  suggested: {
    loss: string | { output: string };
    because: string;
    output: string | null;
    classes: string[] | null;
    preprocess: Record<string, unknown>[];
  } | null;
  parameters: { trainable: number; frozen: number; items: Parameter[] };
  cut: { tensors: string[]; nodes: number; parameters: number; feature_bytes: number; input_bytes: number; milliseconds: number; pays: boolean } | null;
  notes: string[];
}

export interface Tensor {
  name: string;
  dtype: string;
  shape: (number | null)[] | null;
}

export interface Parameter {
  name: string;
  dtype: string;
  shape: number[];
  count: number;
  trains: boolean;
  /** Whether it is in the frozen part, below the cut. */
  below: boolean;
  why_not: string | null;
  detail: string | null;
}
