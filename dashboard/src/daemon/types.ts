/** The bodies of /v1 that the page reads. The reference is /docs. */

import type { EventBody, JobBody } from "./openapi";

export type {
  AliasBody as Alias,
  AuditBody as AuditEntry,
  BaseSetBody as BaseSet,
  BaseSetRemoved as Removed,
  BlockerBody as Blocker,
  ChangedSampleBody as Changed,
  CheckpointBody as Checkpoint,
  ClassBody as ModelClass,
  ComparisonBody as Comparison,
  DeletionBody as Deletion,
  DeviceBody as Device,
  DeviceHistoryBody as DeviceHistory,
  DiagnosisBody as Diagnosis,
  DriftBody as Drift,
  DuplicatesBody as Duplicates,
  EventBody as Told,
  FaultBody as Fault,
  FeatureDriftBody as FeatureDrift,
  FollowBody as Follow,
  FederationBody as Federation,
  InitializerBody as Parameter,
  JobBody as Job,
  JobLogBody as JobLog,
  MetricPointBody as Point,
  ModelBaseBody as ModelBase,
  ModelBody as Model,
  PolicyCheckBody as PolicyCheck,
  PredictionsBody as Answer,
  ReferenceBody as ReferenceSet,
  SampleBody as Sample,
  SampleStatsBody as SampleStats,
  SamplesAccepted as Accepted,
  SeenBody as SeenSamples,
  SignalBody as Signal,
  SystemBody as System,
  TensorBody as Tensor,
  TokenBody as Token,
  TriggerBody as Trigger,
  UpgradeBody as Upgrade,
  VerificationBody as Verification,
  VersionBody as Version,
} from "./openapi";

export interface Page<T> {
  items: T[];
  next: string | null;
}

export type JobState = JobBody["state"];

export type Metrics = Record<string, unknown>;

/** Settings by name; docs/policy.md explains each. */
export type Policy = Record<string, unknown>;

/** The data of an event of /v1/events. */
export type Happening = Pick<EventBody, "type" | "model" | "data">;
