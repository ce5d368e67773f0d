/** Masks of samples: the class of each pixel of a photo, painted in colours. */

import { type Api, modelPath } from "../daemon/api";
import type { App } from "./app";

/** Okabe and Ito (2008), Color Universal Design, after class 0, which stays as it is. */
const COLOURS = [
  [230, 159, 0],
  [86, 180, 233],
  [0, 158, 115],
  [240, 228, 66],
  [0, 114, 178],
  [213, 94, 0],
  [204, 121, 167],
] as const;
const GROUND = [0, 0, 0] as const;
const STRENGTH = 150;
const UNCOUNTED = 255;
/** What the browser multiplies gray of few bits by. */
const SCALES: Record<number, number> = { 1: 255, 2: 85, 4: 17 };
const PALETTE = 3;
const [CHUNKS, DEPTH, KIND] = [8, 24, 25];

/** What lists tell of a mask. */
export interface MaskLabel {
  size: [number, number];
  bytes: number;
}

export function isMask(label: unknown): label is MaskLabel {
  return typeof label === "object" && label !== null && !Array.isArray(label) && "size" in label;
}

/** The mask of a sample in colours, clear where it has class 0; undefined until it is loaded. A corrected one has another size. */
export function mask(app: App, name: string, id: number, { bytes }: MaskLabel): ImageData | undefined {
  const path = modelPath(name, `/samples/${id}/mask`);
  const load = async (api: Api, _: unknown, signal: AbortSignal): Promise<ImageData> => await decoded(await api.bytes(path, signal));
  return app.resources.read<ImageData>(`${path}#${bytes}`, load, true) ?? undefined;
}

async function decoded(png: Blob): Promise<ImageData> {
  const bytes = new DataView(await png.arrayBuffer());
  const picture = await createImageBitmap(png, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const pixels = pixelsOf(picture);
  const places = bytes.getUint8(KIND) === PALETTE ? paletteOf(bytes) : null;
  const scale = SCALES[bytes.getUint8(DEPTH)] ?? 1;
  const { data } = pixels;
  for (let at = 0; at < data.length; at += 4) {
    const [red = 0, green = 0, blue = 0] = data.subarray(at, at + 3);
    const value = places === null ? red / scale : (places.get(colourOf(red, green, blue)) ?? 0);
    data.set([...(value === UNCOUNTED ? [255, 255, 255] : classColour(value)), value === 0 ? 0 : STRENGTH], at);
  }
  return pixels;
}

/** What a class is painted with: black the first one, and then the colours in turn. */
export function classColour(index: number): readonly [number, number, number] {
  return index > 0 ? (COLOURS[(index - 1) % COLOURS.length] ?? GROUND) : GROUND;
}

/** The index of each colour of a PNG's palette: PNG specification, 11.2.3. */
function paletteOf(bytes: DataView): Map<number, number> {
  const found = new Map<number, number>();
  for (let at = CHUNKS; at + 8 < bytes.byteLength; at += 12 + bytes.getUint32(at)) {
    if (bytes.getUint32(at + 4) !== 0x504c5445) continue;
    for (let index = bytes.getUint32(at) / 3 - 1; index >= 0; index -= 1) {
      const [red, green, blue] = [0, 1, 2].map((part) => bytes.getUint8(at + 8 + 3 * index + part)) as [number, number, number];
      found.set(colourOf(red, green, blue), index);
    }
    break;
  }
  return found;
}

function colourOf(red: number, green: number, blue: number): number {
  return (red << 16) | (green << 8) | blue;
}

function pixelsOf(picture: ImageBitmap): ImageData {
  const context = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  if (context === null) throw new Error("no canvas");
  context.drawImage(picture, 0, 0);
  return context.getImageData(0, 0, picture.width, picture.height);
}

const over = new WeakMap<ImageData, ImageData>();

/** A photo with its mask over it. */
export function overlaid(photo: ImageBitmap, painted: ImageData): ImageData {
  const known = over.get(painted);
  if (known !== undefined) return known;
  const sheet = new OffscreenCanvas(painted.width, painted.height);
  sheet.getContext("2d")?.putImageData(painted, 0, 0);
  const context = new OffscreenCanvas(photo.width, photo.height).getContext("2d");
  if (context === null) throw new Error("no canvas");
  context.drawImage(photo, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(sheet, 0, 0, photo.width, photo.height);
  const made = context.getImageData(0, 0, photo.width, photo.height);
  over.set(painted, made);
  return made;
}
