/** Writes a PNG of 8 bits gray: PNG specification, 5 and 11.2. */

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const POLYNOMIAL = 0xedb88320;
const BITS = 8;

/** values: row by row. */
export async function grayPng(values: Uint8Array, width: number): Promise<Blob> {
  const height = values.length / width;
  // Before each row stands its filter: none.
  const rows = new Uint8Array((width + 1) * height);
  for (let y = 0; y < height; y += 1) rows.set(values.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  const packed = new Blob([rows]).stream().pipeThrough(new CompressionStream("deflate"));
  const header = new DataView(new ArrayBuffer(13));
  header.setUint32(0, width);
  header.setUint32(4, height);
  header.setUint8(8, BITS);
  const content = new Uint8Array(await new Response(packed).arrayBuffer());
  const chunks = [chunk("IHDR", new Uint8Array(header.buffer)), chunk("IDAT", content), chunk("IEND", new Uint8Array())];
  return new Blob([new Uint8Array(SIGNATURE), ...chunks], { type: "image/png" });
}

function chunk(kind: string, content: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(content.length + 12);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, content.length);
  bytes.set(new TextEncoder().encode(kind), 4);
  bytes.set(content, 8);
  view.setUint32(8 + content.length, checksum(bytes.subarray(4, 8 + content.length)));
  return bytes;
}

/** CRC-32. */
function checksum(bytes: Uint8Array): number {
  let sum = -1;
  for (const byte of bytes) {
    sum ^= byte;
    for (let bit = 0; bit < BITS; bit += 1) sum = (sum >>> 1) ^ (sum & 1 ? POLYNOMIAL : 0);
  }
  return ~sum >>> 0;
}
