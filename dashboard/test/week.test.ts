import assert from "node:assert/strict";
import { test } from "node:test";

import { hoursOf, windowsOf } from "../src/views/device/week";

test("windows and hours are the same thing in two forms", () => {
  const windows = [
    { days: ["mon", "tue"], start: "22:00", end: "24:00" },
    { days: ["sat"], start: "08:00", end: "12:00" },
  ];
  const grid = hoursOf(windows);
  assert.equal(grid[0]?.[21], false);
  assert.equal(grid[0]?.[23], true);
  assert.deepEqual(windowsOf(grid), windows);
});

test("a window past midnight belongs to the day on which it starts", () => {
  const grid = hoursOf([{ days: ["sun"], start: "23:00", end: "02:00" }]);
  assert.equal(grid[6]?.[23], true);
  assert.deepEqual(grid[0]?.slice(0, 3), [true, true, false]);
});

test("all hours of a week are windows of whole days", () => {
  const grid = hoursOf([]).map((row) => row.map(() => true));
  const windows = windowsOf(grid);
  assert.deepEqual(windows.map(({ start, end }) => [start, end]), [["00:00", "24:00"]]);
  assert.deepEqual(hoursOf(windows), grid);
});
