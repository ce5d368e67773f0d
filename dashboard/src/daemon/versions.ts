/** The bodies of what belongs to versions: predictions, names, checkpoints, samples, drift. */

export interface Alias {
  alias: string;
  version: number;
}

export interface Checkpoint {
  id: number;
  job_id: number;
  /** periodic, best or final. */
  role: string;
  step: number;
  epoch: number;
  size_bytes: number;
  /** Whether it is kept until it is deleted by hand. */
  pinned: boolean;
  note: string;
  created_at: string;
}

/** What a version predicts for each instance. label: an index or a name, nested for each position. */
export interface Answer {
  version: number;
  classes: string[] | null;
  predictions: { label?: unknown; probabilities?: unknown; values?: unknown }[];
}

/** The samples that a version was trained on. total: null if it is not known. */
export interface SeenSamples {
  total: number | null;
  items: { id: number; deleted: boolean }[];
}

/** drifted: null with too few samples. features: those that moved most, of all compared. */
export interface Drift {
  version: number;
  drifted: boolean | null;
  training_samples: number;
  recent_samples: number;
  compared: number;
  features: FeatureDrift[];
}

export interface FeatureDrift {
  input: string;
  feature: number;
  name: string | null;
  psi: number;
  limit: number;
  training_mean: number;
  recent_mean: number;
}
