/** Masks of samples: the class of each pixel of a photo, painted in colours. */

import { modelPath } from "../daemon/api";
import type { Model } from "../daemon/types";
import type { App } from "./app";
import { fileKind } from "./pictures";

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
const [GROUND, WHITE] = [[0, 0, 0], [255, 255, 255]] as const;
const STRENGTH = 150;
export const UNCOUNTED = 255;
/** What the browser multiplies gray of few bits by. */
const SCALES: Record<number, number> = { 1: 255, 2: 85, 4: 17 };
const PALETTE = 3;
const [CHUNKS, DEPTH, KIND] = [8, 24, 25];

/** In a photo's own pixels, from its upper left corner. */
export interface Point {
  x: number;
  y: number;
}

/** What lists tell of a mask. */
export interface MaskLabel {
  size: [number, number];
  bytes: number;
}

export function isMask(label: unknown): label is MaskLabel {
  return typeof label === "object" && label !== null && !Array.isArray(label) && "size" in label;
}

/** A class for each pixel, and the same in colours, clear where it is the first class. */
export interface Mask {
  values: Uint8Array<ArrayBuffer>;
  painted: ImageData;
}

/** Whether a label gives each pixel of a photo a class. */
export function takesMasks(model: Model): boolean {
  const { num_classes: classes, shape } = model.target;
  return fileKind(model) === "image" && classes !== null && shape.length === 2;
}

/** The mask of a sample; undefined until it is loaded. One that was corrected elsewhere has another size. */
export function mask(app: App, name: string, id: number, { bytes }: MaskLabel): Mask | undefined {
  const path = maskPath(name, id);
  return app.resources.readBytes(path, decoded, `${path}?bytes=${bytes}`) ?? undefined;
}

export function maskPath(name: string, id: number): string {
  return modelPath(name, `/samples/${id}/mask`);
}

/** A PNG whose values are classes: gray of 1 to 8 bits, or with a palette. */
export async function decoded(png: Blob): Promise<Mask> {
  const bytes = new DataView(await png.arrayBuffer());
  const picture = await createImageBitmap(png, { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const painted = pixelsOf(picture);
  const places = bytes.getUint8(KIND) === PALETTE ? paletteOf(bytes) : null;
  const scale = SCALES[bytes.getUint8(DEPTH)] ?? 1;
  const { data } = painted;
  const values = new Uint8Array(data.length / 4).map((_, at) => {
    const [red, green, blue] = [data[4 * at] ?? 0, data[4 * at + 1] ?? 0, data[4 * at + 2] ?? 0];
    return places === null ? red / scale : (places.get(colourOf(red, green, blue)) ?? 0);
  });
  values.forEach((value, at) => data.set(PAINTS[value] ?? [], 4 * at));
  return { values, painted };
}

/** A mask whose pixels all have the first class. */
export function emptyMask({ width, height }: { width: number; height: number }): Mask {
  return { values: new Uint8Array(width * height), painted: new ImageData(width, height) };
}

/** A copy to paint on. */
export function copied({ values, painted }: Mask): Mask {
  return { values: values.slice(), painted: new ImageData(painted.data.slice(), painted.width) };
}

/** Gives a line, as wide as the brush, a class. Returns x, y, width and height of what may have changed. */
export function paintLine({ values, painted }: Mask, from: Point, to: Point, radius: number, value: number): [number, number, number, number] {
  const { width, height } = painted;
  const edges = (one: number, other: number, size: number): [number, number] => [
    Math.max(0, Math.floor(Math.min(one, other) - radius)),
    Math.min(size, Math.ceil(Math.max(one, other) + radius) + 1),
  ];
  const [left, right] = edges(from.x, to.x, width);
  const [top, bottom] = edges(from.y, to.y, height);
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  for (let y = top; y < bottom; y += 1) {
    for (let x = left; x < right; x += 1) {
      const [px, py] = [x + 0.5 - from.x, y + 0.5 - from.y];
      const along = Math.min(1, Math.max(0, (px * dx + py * dy) / (dx * dx + dy * dy || 1)));
      if (Math.hypot(px - along * dx, py - along * dy) > radius) continue;
      values[y * width + x] = value;
      painted.data.set(PAINTS[value] ?? [], 4 * (y * width + x));
    }
  }
  return [left, top, right - left, bottom - top];
}

/** What a class is painted with: black the first one, and then the colours in turn. */
export function classColour(index: number): readonly [number, number, number] {
  return index > 0 ? (COLOURS[(index - 1) % COLOURS.length] ?? GROUND) : GROUND;
}

/** The same in CSS; white for pixels that do not count. */
export function paintText(index: number): string {
  const [red, green, blue] = index === UNCOUNTED ? WHITE : classColour(index);
  return `rgb(${red} ${green} ${blue})`;
}

/** By value: red, green, blue, and how strong. */
const PAINTS = Array.from({ length: 256 }, (_, value) => [...(value === UNCOUNTED ? WHITE : classColour(value)), value === 0 ? 0 : STRENGTH]);

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
