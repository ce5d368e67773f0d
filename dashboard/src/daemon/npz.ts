/** Reads the arrays of a .npz file as NumPy writes it: a zip whose parts are .npy files. */

export interface Tensor {
  shape: number[];
  values: number[];
}

const END = 0x06054b50;
const ENTRY = 0x02014b50;
type Read = (view: DataView, at: number) => number;

const KINDS: Record<string, { size: number; read: Read }> = {
  "<f4": { size: 4, read: (view, at) => view.getFloat32(at, true) },
  "<f8": { size: 8, read: (view, at) => view.getFloat64(at, true) },
  "<i8": { size: 8, read: (view, at) => Number(view.getBigInt64(at, true)) },
  "<i4": { size: 4, read: (view, at) => view.getInt32(at, true) },
  "<i2": { size: 2, read: (view, at) => view.getInt16(at, true) },
  "|i1": { size: 1, read: (view, at) => view.getInt8(at) },
  "|u1": { size: 1, read: (view, at) => view.getUint8(at) },
  "|b1": { size: 1, read: (view, at) => view.getUint8(at) },
};

/** Arrays by name, without those of an unknown type. */
export async function readNpz(file: Blob): Promise<Map<string, Tensor>> {
  const view = new DataView(await file.arrayBuffer());
  const found = new Map<string, Tensor>();
  for (const { name, method, start, size } of entries(view)) {
    const packed = new Uint8Array(view.buffer, start, size);
    const content = method === 0 ? packed.slice() : await inflated(packed);
    const tensor = readNpy(new DataView(content.buffer));
    if (tensor !== null) found.set(name.replace(/\.npy$/, ""), tensor);
  }
  return found;
}

interface Entry {
  name: string;
  method: number;
  start: number;
  size: number;
}

/** The central directory (APPNOTE 4.3.12); parts of more than 4 GiB are never shown. */
function entries(view: DataView): Entry[] {
  let end = view.byteLength - 22;
  while (end > 0 && view.getUint32(end, true) !== END) end -= 1;
  const found: Entry[] = [];
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0 && view.getUint32(at, true) === ENTRY; left -= 1) {
    const nameLength = view.getUint16(at + 28, true);
    const local = view.getUint32(at + 42, true);
    const name = new TextDecoder().decode(new Uint8Array(view.buffer, at + 46, nameLength));
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    found.push({ name, method: view.getUint16(at + 10, true), start, size: view.getUint32(at + 20, true) });
    at += 46 + nameLength + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
  }
  return found;
}

async function inflated(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** NumPy's format, versions 1 to 3: magic, length of the header, header, values. */
function readNpy(view: DataView): Tensor | null {
  const isFirst = view.getUint8(6) === 1;
  const length = isFirst ? view.getUint16(8, true) : view.getUint32(8, true);
  const begin = isFirst ? 10 : 12;
  const header = new TextDecoder().decode(new Uint8Array(view.buffer, begin, length));
  const kind = KINDS[/'descr': '([^']+)'/.exec(header)?.[1] ?? ""];
  if (kind === undefined) return null;
  const shape = (/'shape': \(([^)]*)\)/.exec(header)?.[1] ?? "").split(",").filter((part) => part.trim() !== "");
  const count = shape.reduce((product, part) => product * Number(part), 1);
  const values = Array.from({ length: count }, (_, index) => kind.read(view, begin + length + index * kind.size));
  return { shape: shape.map(Number), values };
}
