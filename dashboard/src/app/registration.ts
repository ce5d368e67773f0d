/** A file that is being registered: the chosen settings, and the daemon's diagnosis. */

import { Refused, Unreachable } from "../daemon/api";
import type { Diagnosis, Model } from "../daemon/types";
import { type App, resultOf } from "./app";

export const NAME = "add-model";
/** Before the name of an output that is the loss. */
export const OWN_LOSS = "output:";
const CHECK = "check-model";
const PREPROCESS: Record<string, Record<string, unknown>> = {
  image: { kind: "image" },
  gray: { kind: "image", channels: "gray" },
  standardize: { kind: "standardize" },
  windows: { kind: "windows" },
  "windows, turned": { kind: "windows", layout: "channels_first" },
  audio: { kind: "audio" },
  "audio, turned": { kind: "audio", layout: "time_first" },
  text: { kind: "text" },
};

export interface Draft extends Record<string, unknown> {
  file: File | null;
  /** tokenizer.json, for a model of texts. */
  tokenizer: File | null;
  /** How many files were chosen so far: each begins with fresh fields. */
  round: number;
  found: Diagnosis | null;
  /** Fields that the user has changed. */
  touched: Set<string>;
  /** Aborts the running check. */
  abort: AbortController | null;
}

export function draftOf(app: App): Draft {
  return app.draft<Draft>(NAME, () => ({ file: null, tokenizer: null, round: 0, found: null, touched: new Set(), abort: null }));
}

export function take(app: App, file: File | null | undefined): void {
  if (!file) return;
  const draft = draftOf(app);
  Object.assign(draft, { file, round: draft.round + 1, found: null, touched: new Set() });
  app.state.results.delete(NAME);
  if (file.name.endsWith(".zip")) {
    draft.abort?.abort();
    app.draw();
  } else void diagnose(app, {});
}

/** The faults at a place of the form, from the registration or the last check. */
export function faultsAt(app: App, place: string): string[] {
  const { results } = app.state;
  const found = place.startsWith("/spec/") || place === "/tokenizer" ? (draftOf(app).found?.problems ?? []) : [];
  const all = [...(results.get(NAME)?.faults ?? []), ...(results.get(CHECK)?.faults ?? []), ...found];
  return [...new Set(all.filter(({ pointer }) => isAt(pointer, place)).map(({ detail }) => detail))];
}

export function isAt(pointer: string, place: string): boolean {
  return pointer === place || pointer.startsWith(`${place}/`);
}

/** Why the check failed, unless the fields show it. */
export function checkProblem(app: App): string | null {
  const result = app.state.results.get(CHECK);
  return result === undefined || result.faults.length > 0 ? null : result.text;
}

/** Requests a diagnosis of the file, and aborts a running check. */
export async function diagnose(app: App, spec: Record<string, unknown>): Promise<void> {
  const draft = draftOf(app);
  if (draft.file === null) return;
  draft.abort?.abort();
  const controller = (draft.abort = new AbortController());
  app.draw();
  try {
    const found = await app.api.upload<Diagnosis>("/v1/diagnosis", formOf(draft.file, draft.tokenizer, spec), controller.signal);
    if (controller.signal.aborted) return;
    draft.found = found;
    app.state.results.delete(CHECK);
  } catch (error) {
    if (controller.signal.aborted) return;
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    draft.found = null;
    app.state.results.set(CHECK, resultOf(error));
  } finally {
    if (draft.abort === controller) draft.abort = null;
    app.draw();
  }
}

/** The name of the model, null if it was refused. */
export async function register(app: App, given: FormData): Promise<string | null> {
  const draft = draftOf(app);
  const { file } = draft;
  if (file === null) return null;
  draft.abort?.abort();
  const spec = { name: String(given.get("name") ?? "").trim() || nameOf(file), ...specOf(draft, given, true) };
  const done: string[] = [];
  await app.act(NAME, ["/v1/models?"], async () => {
    const model = await app.api.upload<Model>("/v1/models", formOf(file, draft.tokenizer, spec));
    done.push(model.name);
    return `${model.name} is registered. Version 1 is the file as uploaded.`;
  });
  if (done.length > 0) app.state.drafts.delete(NAME);
  return done[0] ?? null;
}

function formOf(file: File, tokenizer: File | null, spec: Record<string, unknown>): FormData {
  const body = new FormData();
  body.append("spec", JSON.stringify(spec));
  body.append(file.name.endsWith(".zip") ? "artifacts" : "model", file, file.name);
  if (tokenizer !== null) body.append("tokenizer", tokenizer, tokenizer.name);
  return body;
}

export function nameOf(file: File | null): string | null {
  return file === null ? null : file.name.replace(/\.\w+$/, "").toLowerCase().replace(/[^a-z0-9_.-]+/g, "-");
}

/** The chosen specification. isWhole: include the loss that is shown, even if nobody chose it. */
export function specOf(draft: Draft, given: FormData, isWhole: boolean): Record<string, unknown> {
  const text = (name: string): string => String(given.get(name) ?? "").trim();
  const listed = (name: string): string[] => text(name).split(",").map((part) => part.trim()).filter(Boolean);
  const [classes, trainable] = [listed("classes"), listed("trainable")];
  const loss = text("loss");
  const isChosen = isWhole || draft.found !== null || draft.touched.has("loss");
  return {
    optimizer: text("optimizer"),
    ...(isChosen ? { loss: loss.startsWith(OWN_LOSS) ? { output: loss.slice(OWN_LOSS.length) } : loss } : {}),
    ...(classes.length > 0 ? { classes } : {}),
    ...(trainable.length > 0 ? { trainable } : {}),
    ...(text("output") ? { output: text("output") } : {}),
    ...(text("preprocess") ? { preprocess: [preprocessOf(draft, text("preprocess"))] } : {}),
  };
}

/** The chosen preprocessing, with what the file itself suggests: layout, scale. */
function preprocessOf({ found }: Draft, chosen: string): Record<string, unknown> {
  const [suggested] = found?.suggested?.preprocess ?? [];
  return suggested && presetOf(suggested) === chosen ? suggested : (PREPROCESS[chosen] ?? {});
}

/** The form's choice that corresponds to a description. */
export function presetOf({ kind, channels }: Record<string, unknown>): string {
  if (kind !== "image") return String(kind);
  return channels === "gray" ? "gray" : "image";
}
