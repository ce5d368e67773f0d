/** Sends files as samples: images, recordings and texts in small forms, so that progress shows, others alone. */

import { modelPath, Refused, Unreachable, withQuery } from "../daemon/api";
import type { App } from "./app";
import { plural } from "../page/format";
import { namesOf } from "./labels";
import { takesMasks } from "./masks";
import { fileKind } from "./pictures";
import { staleOf } from "./queries";
import type { Accepted, Fault, Model } from "../daemon/types";

const FORM_FILES = 20;
const MASKS = /(^|\/)masks\//;
const ARCHIVE = "application/zip";
const LISTS = { csv: "text/csv", json: "application/json", jsonl: "application/jsonl" };
/** Types by the ending of a file's name. */
const ENDINGS: Record<string, Record<string, string>> = {
  image: { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", webp: "image/webp" },
  audio: { wav: "audio/wav", flac: "audio/flac" },
  text: { txt: "text/plain", ...LISTS },
  tensors: { npz: "application/x-npz", ...LISTS },
};
const TYPES = Object.assign({ zip: ARCHIVE }, ...Object.values(ENDINGS)) as Record<string, string>;
/** Files that hold many samples. */
const WHOLE = [ARCHIVE, ...Object.values(LISTS)];
const TAKES = {
  image: "PNG, JPEG and WebP images",
  audio: "WAV and FLAC recordings",
  text: ".txt, .csv, .json and .jsonl files",
  tensors: ".npz, .csv, .json and .jsonl files",
};

/** A file, its path, whose last folder may be its label, and its mask. */
export interface Dropped {
  file: File;
  path: string;
  mask?: File | undefined;
}

/** `folder`: the class that the folder is named after. `none`: no label. Else a class name. */
export interface Upload extends Record<string, unknown> {
  label: string;
  total: number;
  sent: number;
  accepted: number;
  duplicates: number;
  /** What was left out, and why. */
  faults: string[];
  /** null while nothing is sent. */
  stop: AbortController | null;
}

export function uploadOf(app: App, name: string): Upload {
  return app.draft<Upload>(`upload:${name}`, () => ({
    label: "folder",
    total: 0,
    sent: 0,
    accepted: 0,
    duplicates: 0,
    faults: [],
    stop: null,
  }));
}

/** The files of a drop, including those in folders. */
export async function dropped(transfer: DataTransfer): Promise<Dropped[]> {
  // Both are available only during the event.
  const items = [...transfer.items].map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const found = items.map(async ({ entry, file }) => {
    if (entry !== null) return await filesOf(entry);
    return file === null ? [] : [{ file, path: "" }];
  });
  return (await Promise.all(found)).flat();
}

/** The files of a field; with `webkitdirectory` they have folders. */
export function chosen(files: FileList): Dropped[] {
  return [...files].map((file) => ({ file, path: file.webkitRelativePath }));
}

async function filesOf(entry: FileSystemEntry): Promise<Dropped[]> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ file, path: entry.fullPath }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: Dropped[] = [];
  // A reader returns a hundred entries at a time, and none at the end.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found;
    found.push(...(await Promise.all(some.map(filesOf))).flat());
  }
}

/** Sends the files that the model can take, and reports those left out. */
export async function send(app: App, model: Model, files: Dropped[]): Promise<void> {
  const upload = uploadOf(app, model.name);
  if (upload.stop !== null || files.length === 0) return;
  const stop = new AbortController();
  const types = [ARCHIVE, ...Object.values(ENDINGS[fileKind(model) ?? "tensors"] ?? {})];
  const fits = files.filter(({ file }) => types.includes(typeOf(file)));
  const [alone, paired] = takesMasks(model) ? withMasks(fits) : [0, fits];
  const faults = files.length === fits.length ? [] : [unfit(model, files.length - fits.length)];
  if (alone > 0) faults.push(`${plural(alone, "mask")} skipped: a mask below a folder masks has the place and name of a photo below images`);
  Object.assign(upload, { total: paired.length, sent: 0, accepted: 0, duplicates: 0, faults, stop });
  app.draw();
  try {
    for (const some of requests(model, paired)) {
      if (!stop.signal.aborted) await sendSome(app, model, upload, some);
    }
    app.toast(told(upload));
  } finally {
    upload.stop = null;
    await app.resources.refresh(staleOf(model));
    app.draw();
  }
}

/** How many masks have no photo, and the files with their masks: of `images/1.jpg` that is `masks/1.png`. */
function withMasks(files: Dropped[]): [number, Dropped[]] {
  const stem = (path: string): string => path.replace(/\.\w+$/, "");
  const masks = new Map(files.filter(({ path }) => MASKS.test(path)).map(({ file, path }) => [stem(path.replace(MASKS, "$1images/")), file]));
  const photos = files.filter(({ path }) => !MASKS.test(path)).map((each) => ({ ...each, mask: masks.get(stem(each.path)) }));
  return [masks.size - photos.filter(({ mask }) => mask).length, photos];
}

/** The files of each request: images, recordings and texts together, others alone. */
function requests(model: Model, files: Dropped[]): Dropped[][] {
  const others = files.filter(({ file }) => !isAlone(model, file));
  const forms = Array.from({ length: Math.ceil(others.length / FORM_FILES) }, (_, at) => others.slice(at * FORM_FILES, (at + 1) * FORM_FILES));
  return [...files.filter(({ file }) => isAlone(model, file)).map((each) => [each]), ...forms];
}

async function sendSome(app: App, model: Model, upload: Upload, files: Dropped[]): Promise<void> {
  try {
    const answer = await accepted(app, model, upload, files);
    upload.accepted += answer.accepted;
    upload.duplicates += answer.duplicates;
    upload.faults.push(...answer.errors.map((fault) => faultText(files, fault)));
  } catch (error) {
    if (upload.stop?.signal.aborted) return;
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    const faults = error instanceof Refused ? error.faults.map((fault) => faultText(files, fault)) : [];
    upload.faults.push(...(faults.length > 0 ? faults : [`${files[0]?.file.name ?? ""}: ${error.message}`]));
  }
  upload.sent += files.length;
  app.draw();
}

async function accepted({ api }: App, model: Model, upload: Upload, files: Dropped[]): Promise<Accepted> {
  const [{ file } = { file: new File([], "") }] = files;
  const signal = upload.stop?.signal;
  if (isArchive(file)) return await api.upload<Accepted>(modelPath(model.name, "/samples/archive"), typed(file), signal);
  const body = isAlone(model, file) ? typed(file) : formOf(model, upload, files);
  return await api.upload<Accepted>(withQuery(modelPath(model.name, "/samples"), { on_error: "skip" }), body, signal);
}

function formOf(model: Model, upload: Upload, files: Dropped[]): FormData {
  const form = new FormData();
  for (const { file, path, mask } of files) {
    form.append("file", typed(file), mask ? path : file.name);
    if (mask) form.append("mask", typed(mask), path);
  }
  const about = files.map(({ path }) => ({ label: labelOf(model, upload, path.split("/").at(-2) ?? "") }));
  form.append("samples", JSON.stringify(about));
  return form;
}

/** The label of a file, null if nothing names a class. */
function labelOf(model: Model, { label }: Upload, folder: string): string | null {
  const wanted = label === "folder" ? folder : label;
  return namesOf(model).find((name) => name === wanted) ?? null;
}

/** A file's content with the type that its name means, empty for none. */
export function typed(file: File): Blob {
  return new Blob([file], { type: typeOf(file) });
}

function typeOf({ name }: File): string {
  return TYPES[/\.(\w+)$/.exec(name)?.[1]?.toLowerCase() ?? ""] ?? "";
}

function isAlone(model: Model, file: File): boolean {
  return fileKind(model) === null || WHOLE.includes(typeOf(file));
}

function isArchive(file: File): boolean {
  return typeOf(file) === ARCHIVE;
}

function unfit(model: Model, count: number): string {
  return `${plural(count, "file")} skipped: this model takes ${TAKES[fileKind(model) ?? "tensors"]}, and sample archives`;
}

/** What is wrong with which file: the daemon names that of a picture or recording itself. */
function faultText(files: Dropped[], { pointer, detail }: Fault): string {
  const name = nameAt(files, pointer);
  return detail.startsWith(`${name}: `) ? detail : `${name}: ${detail}`;
}

/** The name of the file that an error is about, whose place in the form the pointer contains. */
function nameAt(files: Dropped[], pointer: string): string {
  const at = /^\/(?:files?|samples)\/(\d+)/.exec(pointer)?.[1];
  return files[Number(at)]?.file.name ?? (files.length === 1 ? `${files[0]?.file.name ?? ""}${pointer}` : pointer);
}

function told({ accepted, duplicates, faults }: Upload): string {
  const same = duplicates > 0 ? `, ${plural(duplicates, "duplicate")}` : "";
  return `${plural(accepted, "sample")} added${same}${faults.length > 0 ? `, ${plural(faults.length, "problem")}` : ""}.`;
}
