// Against the daemon of HONED_URL, HONED_TOKEN and HONED_DATA_DIR, which has the model `bell`.
// tests/clients/test_js.py starts it, and these.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, HonedError } from "../src/index.js";
import { localClient } from "../src/node.js";

const { HONED_URL: url, HONED_TOKEN: token, HONED_DATA_DIR } = process.env;
const client = new Client({ url, token });
const bell = client.model("bell");
const X = new Float32Array(8).fill(0.5);

async function promoteAnother() {
  const job = await bell.train({ wait: true, epochs: 1, ignore_policy: true });
  assert.equal(job.state, "succeeded");
  return job.version;
}

test("what was predicted is kept and corrected", async () => {
  const found = await bell.predict(X, { keep: true });
  assert.equal(found.probabilities[found.label], found.probability);
  assert.equal((await bell.label(found.id, "2")).label, 2);
  assert.equal((await bell.predict({ x: X })).id, undefined);
  assert.equal((await bell.label(found.id, null)).label, null);
});

test("a sample is added once", async () => {
  const x = Array(8).fill(0.125);
  assert.ok(await bell.add(x, 1, { key: "js" }));
  assert.equal(await bell.add(x, 1, { key: "js" }), null);
});

test("a refusal says where", async () => {
  await assert.rejects(bell.predict([1]), (error) => {
    assert.ok(error instanceof HonedError);
    assert.deepEqual([error.status, error.code], [422, "invalid_input"]);
    return error.message.includes("/inputs/x");
  });
});

test("texts are added, and continued in parts, by the socket too", async () => {
  const spoken = client.model("spoken");
  assert.ok(await spoken.add("see you soon", null, { key: "one" }));
  assert.equal((await spoken.addAll([{ x: "see you soon" }, { x: "see you there" }])).accepted, 1);
  const options = { max_tokens: 12, temperature: 0 };
  const { text } = await spoken.complete("see", options);
  const local = process.platform === "linux" ? [await localClient({ env: { HONED_DATA_DIR } })] : [];
  for (const each of [client, ...local]) {
    const parts = [];
    for await (const part of each.model("spoken").stream("see", options)) parts.push(part);
    assert.equal(parts.map((part) => part.text).join(""), text);
    assert.equal(parts.at(-1).finish_reason, "length");
  }
  await assert.rejects(async () => {
    for await (const part of spoken.stream("see", { top_p: 2 })) assert.fail(part);
  }, HonedError);
});

test("a watch swaps the newest model in, and one that cannot be loaded is left out", async () => {
  let made = 0;
  const live = await bell.watch(async (bytes) => {
    made += 1;
    if (made === 2) throw new Error("not for this runtime");
    return { bytes, made };
  });
  const before = live.sha256;
  const changed = live.changed();
  await promoteAnother();
  const session = await changed;
  live.close();
  assert.equal(session.made, 3);
  assert.notEqual(live.sha256, before);
  assert.equal(live.sha256, (await bell.latest()).sha256);
});

test("the newest model is not sent again to who has it", async () => {
  const { sha256 } = await bell.newest();
  assert.equal(await bell.newest({ known: sha256, waitS: 1 }), null);
});

test("this machine's daemon is found by its socket, without a token", { skip: process.platform !== "linux" }, async () => {
  const local = await localClient({ env: { HONED_DATA_DIR } });
  assert.equal((await local.model("bell").describe()).name, "bell");
  assert.ok(await local.model("bell").newest());
  await assert.rejects(local.model("nobody").latest(), HonedError);
});
