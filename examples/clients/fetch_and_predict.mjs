// Keeps FILE equal to the newest promoted version of MODEL, and predicts after each change.
//
// HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… node fetch_and_predict.mjs MODEL FILE INPUTS.json [TIMES]

import { existsSync } from "node:fs";
import { readFile, rename, writeFile } from "node:fs/promises";
import { setTimeout } from "node:timers/promises";

const WAIT_S = 60;
const { HONED_URL, HONED_TOKEN } = process.env;
const [model, file, inputs, times = "-1"] = process.argv.slice(2);

function ask(path, { headers, ...options }) {
  const authorization = `Bearer ${HONED_TOKEN}`;
  return fetch(HONED_URL + path, { ...options, headers: { authorization, ...headers } });
}

/** Waits for a model that differs from the file. Returns its tag, null if there is none yet. */
async function fetchModel() {
  const tagFile = `${file}.etag`;
  const known = existsSync(file) && existsSync(tagFile) ? await readFile(tagFile, "utf8") : '""';
  const answer = await ask(`/v1/models/${model}/latest/model.onnx?wait=${WAIT_S}`, {
    headers: { "if-none-match": known },
    // Without it fetch may turn a 304 into the answer of its own cache.
    cache: "no-store",
  });
  if (answer.status === 304) return null;
  if (!answer.ok) throw new Error(await answer.text());
  await writeFile(`${file}.part`, Buffer.from(await answer.arrayBuffer()));
  await rename(`${file}.part`, file);
  await writeFile(tagFile, answer.headers.get("etag"));
  return answer.headers.get("etag");
}

async function predict() {
  const answer = await ask(`/v1/models/${model}/predict`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: await readFile(inputs),
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer.text();
}

for (let left = Number(times); left !== 0; ) {
  try {
    const tag = await fetchModel();
    if (tag === null) continue;
    console.log("fetched", tag);
    console.log(await predict());
    left -= 1;
  } catch (error) {
    console.error(`no answer (${error.cause ?? error.message}); trying again`);
    await setTimeout(1000);
  }
}
