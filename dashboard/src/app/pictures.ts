/** How samples are shown: images, recordings, texts, tensors that are images, and other tensors. */

import { modelPath } from "../daemon/api";
import { readNpz, type Tensor } from "../daemon/npz";
import type { Model, Sample } from "../daemon/types";
import type { App } from "./app";

const SMALL_PICTURE_BYTES = 2 ** 20;
const PICTURE_PIXELS = 256;
const LEAST_SIDE = 4;
const SOUND_HZ = 44_100;
/** ASCII's unit separator stands between the texts of a pair. */
const BETWEEN_TEXTS = "\u001f";

/** What files a model’s samples are, null for tensors. */
export function fileKind({ preprocess }: Model): "image" | "audio" | "text" | null {
  const known = preprocess.map(({ kind }) => kind);
  return (["image", "audio", "text"] as const).find((kind) => known.includes(kind)) ?? null;
}

/** The texts of a sample, two for a pair. */
export function texts(app: App, name: string, id: number): string[] | null | undefined {
  const path = modelPath(name, `/samples/${id}/content`);
  return app.resources.readBytes(path, async (file) => (await file.text()).split(BETWEEN_TEXTS));
}

export interface Size {
  width: number;
  height: number;
}

/** The sizes of photos that are shown smaller. */
const own = new WeakMap<ImageBitmap, Size>();

/** The size of a photo in its own pixels. */
export function ownSize(shown: ImageBitmap): Size {
  return own.get(shown) ?? shown;
}

/**
 * A picture of a sample, undefined until it is loaded, null if there is none.
 *
 * A thumbnail takes the daemon half a second in a process; the browser decodes small files itself.
 * isMeasured: large ones too, since a thumbnail does not tell the photo's own size.
 */
export function picture(app: App, name: string, { id, size_bytes: size }: Pick<Sample, "id" | "size_bytes">, isMeasured = false): ImageBitmap | null | undefined {
  const isSmall = isMeasured || (size > 0 && size <= SMALL_PICTURE_BYTES);
  const path = modelPath(name, `/samples/${id}/${isSmall ? "content" : `thumbnail?size=${PICTURE_PIXELS}`}`);
  return app.resources.readBytes(path, async (file) => {
    const whole = await createImageBitmap(file).catch(broken);
    if (whole === null || whole.height <= PICTURE_PIXELS) return whole;
    const shown = await createImageBitmap(whole, { resizeHeight: PICTURE_PIXELS, resizeQuality: "medium" });
    own.set(shown, { width: whole.width, height: whole.height });
    return shown;
  });
}

/** The photo of a sample in its own pixels, undefined until it is loaded, null if there is none. */
export function photo(app: App, name: string, id: number): ImageBitmap | null | undefined {
  const path = modelPath(name, `/samples/${id}/content`);
  return app.resources.readBytes(path, async (file) => await createImageBitmap(file).catch(broken), `${path}?whole`);
}

/** A sample that cannot be decoded has no picture, and no sound. */
function broken(error: unknown): null {
  if (error instanceof DOMException && ["InvalidStateError", "EncodingError"].includes(error.name)) return null;
  throw error;
}

/** A recording, undefined until it is loaded, null if the browser cannot decode it. */
export function sound(app: App, name: string, id: number): AudioBuffer | null | undefined {
  const path = modelPath(name, `/samples/${id}/content`);
  return app.resources.readBytes(path, async (file) => await new OfflineAudioContext(1, 1, SOUND_HZ).decodeAudioData(await file.arrayBuffer()).catch(broken));
}

let player: AudioContext | null = null;

/** Plays a recording that is shown, instead of the one that plays. */
export function play(app: App, { name }: Model, id: number): void {
  const buffer = app.resources.peek<AudioBuffer>(modelPath(name, `/samples/${id}/content`));
  if (!buffer) return;
  void player?.close();
  player = new AudioContext();
  const source = new AudioBufferSourceNode(player, { buffer });
  source.connect(player.destination);
  source.start();
}

/** The inputs of a sample by name. */
export function content(app: App, name: string, id: number): Map<string, Tensor> | null | undefined {
  const path = modelPath(name, `/samples/${id}/content`);
  return app.resources.readBytes(path, readNpz);
}

interface Raster {
  width: number;
  height: number;
  channels: number;
  isPlanar: boolean;
}

/** The layout of a tensor that is a picture: 1×H×W, 3×H×W, or channels last; null for others. */
export function rasterOf(shape: readonly number[]): Raster | null {
  if (shape.length !== 3) return null;
  const [first = 0, second = 0, third = 0] = shape;
  const isColour = (channels: number): boolean => channels === 1 || channels === 3;
  if (isColour(first) && Math.min(second, third) >= LEAST_SIDE) return { width: third, height: second, channels: first, isPlanar: true };
  if (isColour(third) && Math.min(first, second) >= LEAST_SIDE) return { width: second, height: first, channels: third, isPlanar: false };
  return null;
}

/** Whether samples are shown as pictures. */
export function showsPictures(model: Model): boolean {
  const [only, ...others] = model.inputs;
  const isPicture = only !== undefined && others.length === 0 && rasterOf(only.shape) !== null;
  return fileKind(model) === "image" || (fileKind(model) === null && isPicture);
}

const drawn = new WeakMap<Tensor, ImageData>();

/** A tensor of this shape as pixels: 0 to 1 and 0 to 255 as they are, other ranges from minimum to maximum. */
export function pixelsOf(tensor: Tensor, shape: readonly number[]): ImageData | null {
  const known = drawn.get(tensor);
  if (known !== undefined) return known;
  const raster = rasterOf(shape);
  if (raster === null) return null;
  const { width, height, channels, isPlanar } = raster;
  const [low, high] = rangeOf(tensor.values);
  const image = new ImageData(width, height);
  for (let at = 0; at < width * height; at += 1) {
    for (let channel = 0; channel < 3; channel += 1) {
      const of = Math.min(channel, channels - 1);
      const value = tensor.values[isPlanar ? of * width * height + at : at * channels + of] ?? low;
      image.data[at * 4 + channel] = Math.round((255 * (value - low)) / (high - low));
    }
    image.data[at * 4 + 3] = 255;
  }
  drawn.set(tensor, image);
  return image;
}

export function rangeOf(values: readonly number[]): [number, number] {
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  if (low >= 0 && high <= 1) return [0, 1];
  if (low >= 0 && high <= 255) return [0, 255];
  return [low, high > low ? high : low + 1];
}
