import assert from "node:assert/strict";
import { test } from "node:test";

import { staleAfter } from "../src/app/happenings";
import { EventParser } from "../src/daemon/events";
import { isBelow } from "../src/daemon/resources";

const STREAM =
  "retry: 1000\nid: 4\n\n: still here\n\nid: 5\nevent: job.running\ndata: {\"a\": 1}\n\n" +
  "event: job.progress\ndata: one\ndata: two\n\n";
const FRAMES = [
  { type: "job.running", data: '{"a": 1}' },
  { type: "job.progress", data: "one\ntwo" },
];

for (const end of ["\n", "\r\n", "\r"]) {
  test(`events are the same however the stream is cut, lines end in ${JSON.stringify(end)}`, () => {
    const text = STREAM.replaceAll("\n", end) + (end === "\r" ? ":" : "");
    for (let size = 1; size <= text.length; size += 1) {
      const parser = new EventParser();
      const frames = [];
      for (let at = 0; at < text.length; at += size) frames.push(...parser.feed(text.slice(at, at + size)));
      assert.deepEqual(frames, FRAMES);
      assert.equal(parser.lastId, "5");
    }
  });
}

test("an id counts when its block is complete", () => {
  const parser = new EventParser("3");
  parser.feed("id: 4\ndata: x\n");
  assert.equal(parser.lastId, "3");
  parser.feed("\n");
  assert.equal(parser.lastId, "4");
});

test("a block without data is no event, and unknown fields are passed over", () => {
  const parser = new EventParser();
  assert.deepEqual(parser.feed("event: job.running\nfoo: bar\n\n"), []);
  assert.deepEqual(parser.feed("data\n\n"), [{ type: "message", data: "" }]);
});

test("an event makes stale what it changes of its model, and no comparison of versions", () => {
  const read = ["", "/aliases", "/base", "/federation", "/samples/stats", "/samples?limit=50", "/triggers", "/versions?limit=50", "/versions/1/comparison/2"];
  const staleOf = (type: string): string[] => {
    const places = staleAfter({ type, model: "m", data: {} });
    return read.filter((address) => places.some((place) => isBelow(`/v1/models/m${address}`, place)));
  };
  assert.deepEqual(staleOf("samples.added"), ["", "/samples/stats", "/samples?limit=50", "/triggers"]);
  assert.deepEqual(staleOf("version.promoted"), ["", "/aliases", "/base", "/samples?limit=50", "/versions?limit=50"]);
  assert.deepEqual(staleOf("job.queued"), ["/base", "/federation", "/triggers"]);
  assert.deepEqual(staleOf("model.updated"), read);
});
