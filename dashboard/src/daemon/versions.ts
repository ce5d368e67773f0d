/** The bodies of what belongs to versions: names, checkpoints, samples, drift. */

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
