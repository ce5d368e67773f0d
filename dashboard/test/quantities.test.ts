import assert from "node:assert/strict";
import { test } from "node:test";

import type { Job, Model } from "../src/daemon/types";
import { ago, bytes, clock, count, decimal, distinct, duration, percent } from "../src/page/format";
import { latestMean, powers, smoothed, thinned, ticks } from "../src/page/scale";
import { condition, judgedBy, measure, metricWords } from "../src/page/words";
import { progressText } from "../src/views/pinned";

test("ticks are round, and inside the range", () => {
  assert.deepEqual(ticks({ low: 0, high: 3.4 }, 4), [0, 1, 2, 3]);
  assert.deepEqual(ticks({ low: 0, high: 17_400 }, 4), [0, 5000, 10_000, 15_000]);
  assert.deepEqual(ticks({ low: 2, high: 2 }, 4), [2]);
});

test("powers of ten are few, however far the loss falls", () => {
  assert.deepEqual(powers({ low: 0.02, high: 3 }), [1, 0.1]);
  assert.ok(powers({ low: 1e-12, high: 1 }).length <= 5);
});

test("a long curve is thinned to its means and keeps its last step", () => {
  const dots = Array.from({ length: 1000 }, (_, step) => ({ step, value: step % 2 }));
  const shown = thinned(dots, 100);
  assert.equal(shown.length, 100);
  assert.equal(shown.at(-1)?.step, 999);
  assert.ok(shown.every((dot) => dot.value === 0.5));
});

test("a curve is smoothed by the mean of the last fiftieth of its dots", () => {
  const dots = Array.from({ length: 1000 }, (_, step) => ({ step, value: step % 2 }));
  assert.equal(smoothed(dots).length, 1000);
  assert.ok(smoothed(dots).slice(20).every((dot) => dot.value === 0.5));
  assert.equal(latestMean(dots), 0.5);
  assert.equal(latestMean([]), null);
  assert.equal(smoothed(dots.slice(0, 40))[39]?.value, 1);
});

test("a signal that is unknown is not said to be too low", () => {
  const detail = "battery_percent is unknown (no battery that tells its charge); unknown.battery is block";
  assert.equal(condition({ condition: "battery", detail }), "The battery level is unknown");
  assert.equal(condition({ condition: "battery", detail: "battery at 20 %" }), "The battery is low");
});

test("the epoch is the one under way", () => {
  const at = (step: number, epoch: number, epochs: number | null): string =>
    progressText({ state: "running", progress: { step, total_steps: 20, epoch, epochs, samples_per_second: null, eta_seconds: null } } as Job);
  assert.equal(at(3, 0, 2), "step 3 of 20, epoch 1 of 2");
  assert.equal(at(19, 1, 2), "step 19 of 20, epoch 2 of 2");
  assert.equal(at(20, 2, 2), "step 20 of 20, epoch 2 of 2");
  assert.equal(at(20, 5, null), "step 20 of 20, epoch 5");
  assert.equal(at(20, 0, null), "step 20 of 20, epoch 1");
});

test("quantities are short", () => {
  assert.equal(decimal(0.123456), "0.123");
  assert.equal(decimal(0.0000242), "2.42e-5");
  assert.equal(decimal(0.0001), "1e-4");
  assert.equal(decimal(12_345), "12,300");
  assert.equal(decimal(-1234.5), "-1,230");
  assert.equal(decimal(0.5), "0.5");
  assert.equal(count(1_234_567.6), "1,234,568");
  assert.equal(count(-999), "-999");
  assert.equal(bytes(19_900), "19.4 KiB");
  assert.equal(bytes(0), "0 B");
  assert.equal(clock(new Date(2020, 1, 3, 4, 5)), "3 Feb 2020, 04:05");
  assert.equal(duration(3725), "1 h 2 min");
  assert.equal(duration(59.6), "1 min 0 s");
  assert.deepEqual(distinct([0.984, 0.9842, 0.9844], percent), ["98.40 %", "98.42 %", "98.44 %"]);
  assert.deepEqual(distinct([1000, 1000.5, 1001], decimal), ["1,000", "1,000.5", "1,001"]);
  const now = new Date("2026-01-31T12:00:00Z");
  assert.equal(ago(new Date("2026-01-31T11:57:00Z"), now), "3 min ago");
});

function judging(loss: Model["loss"], metric: Model["gate"]["metric"]): string[] {
  return judgedBy({ loss, gate: { metric } as Model["gate"] });
}

test("a version is judged by its gate's metric, else by another of its task", () => {
  const metrics = { accuracy: 0.9, loss: 0.3, macro_f1: null };
  assert.equal(measure(metrics, {}, judging("cross_entropy", "accuracy"))?.after, 0.9);
  assert.equal(measure(metrics, { loss: 0.5 }, judging("cross_entropy", "loss"))?.before, 0.5);
  assert.equal(measure({ loss: 1 }, {}, judging("cross_entropy", "accuracy"))?.name, "loss");
  assert.equal(measure({}, {}, judging("cross_entropy", "accuracy")), null);
  assert.deepEqual(judging("multilabel", "macro_f1"), ["macro_f1", "micro_f1", "accuracy", "loss"]);
  assert.deepEqual(judging({ output: "loss" }, "loss"), ["loss"]);
});

test("of metrics those are shares of which more is better", () => {
  const shown = (loss: Model["loss"], metric: Model["gate"]["metric"]) => measure({ [metric]: 0.5 }, {}, judging(loss, metric));
  assert.deepEqual(shown("multilabel", "micro_f1"), { name: "micro F1", isShare: true, after: 0.5, before: null });
  assert.deepEqual(shown("supcon", "recall_at_1"), { name: "recall at 1", isShare: true, after: 0.5, before: null });
  assert.deepEqual(shown("l1", "mae"), { name: "mean absolute error", isShare: false, after: 0.5, before: null });
  assert.equal(metricWords("loss"), "loss");
});
