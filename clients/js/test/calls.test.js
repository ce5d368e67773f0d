// Many samples and predictions, lists, registration, triggers and the policy, against the daemon of
// HONED_URL, HONED_TOKEN and HONED_DATA_DIR, which has the model `bell`. tests/clients/test_js.py starts it.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { Client, HonedError, Model } from "../src/index.js";
import { localClient } from "../src/node.js";

const { HONED_URL: url, HONED_TOKEN: token, HONED_DATA_DIR } = process.env;
const client = new Client({ url, token });
const bell = client.model("bell");

function rows(count, from = 0) {
  return Array.from({ length: count }, (_, n) => Float32Array.from({ length: 8 }, (_, m) => Math.sin(from + 8 * n + m)));
}

async function all(items) {
  const listed = [];
  for await (const item of items) listed.push(item);
  return listed;
}

async function registered(asking, name) {
  const { bytes } = await bell.newest();
  return asking.register(name, bytes, { loss: "cross_entropy", classes: ["no", "yes", "3"] });
}

test("a model is registered, and many samples are added and changed by their keys", async () => {
  const model = await registered(client, "js-many");
  const labels = ["yes", "3", null, "no"];
  const samples = rows(4).map((x, n) => ({ x, label: labels[n], key: `k${n}`, weight: n + 1, split: "train" }));
  const added = await model.addAll(samples);
  assert.deepEqual([added.accepted, added.duplicates], [4, 0]);
  const stored = await all(model.samples({ limit: 3 }));
  assert.deepEqual(stored.map(({ key, label, weight }) => [key, label, weight]), [["k0", 1, 1], ["k1", 2, 2], ["k2", null, 3], ["k3", 0, 4]]);
  assert.equal((await model.label("k2", "3")).label, 2);
  const changed = await model.change("k2", { weight: 0.5, pinned: true });
  assert.deepEqual([changed.weight, changed.pinned, changed.label], [0.5, true, 2]);
  assert.equal((await model.addAll(samples)).ids, null);
  assert.equal(await model.add(rows(1, 99)[0], null, { key: "k9", weight: 7 }), (await all(model.samples({ key: "k9" })))[0].id);
  await assert.rejects(model.label("nobody", "3"), HonedError);
});

test("the address at which no daemon answers is named", async () => {
  const nobody = new Client({ url: "http://127.0.0.1:2" });
  await assert.rejects(nobody.get("/healthz"), /no daemon answers at http:\/\/127\.0\.0\.1:2: connect ECONNREFUSED/);
  const gone = AbortSignal.abort();
  await assert.rejects(client.request("GET", "/healthz", { signal: gone }), { name: "AbortError" });
});

test("many instances are predicted in one request", async () => {
  const predictions = await bell.predictAll(rows(5), { top: 2 });
  assert.deepEqual(predictions.map(({ top }) => top.label.length), [2, 2, 2, 2, 2]);
  const [named] = await bell.predictAll(rows(1), { output: ["logits"], keep: true });
  assert.ok(named.id > 0 && named.version > 0);
  assert.equal(named.outputs.logits.length, 3);
  assert.deepEqual((await bell.predict(rows(1)[0], { top: 2 })).top, predictions[0].top);
});

test("whole numbers of 64 bits are sent as numbers, and refused where those would not be exact", async () => {
  const x = [3, 1, 4, 1, 5, 9, 2, 6];
  const said = await bell.predict(x);
  assert.deepEqual(await bell.predict(BigInt64Array.from(x, BigInt)), said);
  assert.deepEqual(await bell.predict(x.map(BigInt)), said);
  const added = await bell.addAll([{ x: Float64Array.from(x), label: 1n }]);
  assert.equal(added.accepted + added.duplicates, 1);
  await assert.rejects(bell.predict(new BigInt64Array(8).fill(2n ** 53n)), RangeError);
  await assert.rejects(bell.label(1, NaN), RangeError); // null takes a label away
});

test("predictions come as one typed array", async () => {
  const { data, shape } = await bell.predictArray(rows(5));
  assert.ok(data instanceof Float32Array);
  assert.deepEqual(shape, [5, 3]);
  const said = (await bell.predictAll(rows(5))).flatMap(({ probabilities }) => probabilities);
  assert.deepEqual([...data], [...Float32Array.from(said)]);
  assert.deepEqual((await bell.predictArray(rows(2), { output: "logits" })).shape, [2, 3]);
});

test("models, jobs and versions are listed", async () => {
  const job = await bell.train({ wait: true, epochs: 1, ignore_policy: true });
  assert.equal((await all(client.jobs({ model: "bell" })))[0].id, job.id);
  assert.ok((await all(client.models())).some(({ name }) => name === "bell"));
  assert.equal((await all(bell.versions()))[0].version, job.version);
});

test("photos are added and predicted as blobs and files", async () => {
  const seen = client.model("seen");
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==", "base64");
  const one = await seen.add(new Blob([png]), "bright", { key: "one", split: "train" });
  const added = await seen.addAll([{ x: new File([png], "a.png", { type: "image/png" }), label: "bright", key: "one" }]);
  assert.deepEqual([added.accepted, added.duplicates], [0, 1]);
  assert.deepEqual((await all(seen.samples())).map(({ id, key, label }) => [id, key, label]), [[one, "one", 1]]);
  assert.deepEqual(await seen.predictAll([new Blob([png])], { top: 1 }), [await seen.predict(new Blob([png]), { top: 1 })]);
  await assert.rejects(seen.predict(new Blob(["GIF89a"])), TypeError);
});

test("triggers are made, changed and removed, and the policy is changed", async () => {
  const trigger = await bell.addTrigger({ new_samples: 5000, enabled: false });
  assert.equal((await bell.changeTrigger(trigger.id, { name: "many" })).name, "many");
  assert.deepEqual((await all(bell.triggers())).map(({ id }) => id), [trigger.id]);
  await bell.removeTrigger(trigger.id);
  assert.deepEqual(await all(bell.triggers()), []);
  const before = await client.policy();
  assert.deepEqual(await client.policy({ nice: 7 }), { ...before, nice: 7 });
  await client.request("DELETE", "/v1/policy");
});

test("a model is registered by the socket, too", { skip: process.platform !== "linux" }, async () => {
  const local = await localClient({ env: { HONED_DATA_DIR } });
  assert.equal((await (await registered(local, "js-local")).describe()).loss, "cross_entropy");
  const folder = await mkdtemp(path.join(tmpdir(), "honed-"));
  const server = net.createServer().listen(path.join(folder, "api.sock"));
  await once(server, "listening");
  const alone = await localClient({ env: { HONED_DATA_DIR: folder } });
  await rm(folder, { recursive: true });
  server.close();
  await assert.rejects(alone.get("/healthz"), { name: "TypeError", message: /no daemon answers at .*: connect ENOENT/ });
});

test("every method has a type", async () => {
  const types = await readFile(new URL("../src/index.d.ts", import.meta.url), "utf8");
  for (const kind of [Client, Model]) {
    const body = types.split(`export class ${kind.name} {`)[1].split("\n}")[0];
    const methods = Object.getOwnPropertyNames(kind.prototype).filter((name) => name !== "constructor");
    assert.deepEqual(methods.filter((name) => !new RegExp(`\\n  ${name}[(<]`).test(body)), []);
  }
});
