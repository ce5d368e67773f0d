/** A model's metric by version. */

import type { App } from "../../app/app";
import type { Model, Version } from "../../daemon/types";
import { h } from "../../page/dom";
import { type Measure, measureOf } from "../../page/words";
import { chartView } from "../jobs/chart";
import { section } from "../parts/parts";

/** The versions that were measured, oldest first. */
export function measured(model: Model, list: readonly Version[]): { version: Version; metric: Measure }[] {
  const known = list.flatMap((version) => {
    const metric = measureOf(model, list, version);
    return metric === null ? [] : [{ version, metric }];
  });
  return known.reverse();
}

/** null for fewer than two measured versions. */
export function courseView(app: App, model: Model, list: readonly Version[]): HTMLElement | null {
  const known = measured(model, list);
  const [first, second] = known;
  if (first === undefined || second === undefined) return null;
  const refused = known.filter(({ version }) => !version.promoted).map(({ version }) => version.version);
  return section(
    "Metric by version",
    { id: "course" },
    chartView(app, {
      id: `course-${model.name}`,
      title: first.metric.name,
      keys: { validation: "metric" },
      points: known.map(({ version, metric }) => ({ step: version.version, epoch: 0, values: { metric: metric.after } })),
      by: { name: "version", first: first.version.version },
      width: app.widthOf("course"),
      isShare: first.metric.isShare,
      hollow: new Set(refused),
    }),
    refused.length > 0 && h("p", { class: "quiet", "data-key": "hollow" }, "Hollow: not promoted."),
  );
}
