/** Hands a file to the browser's downloads. */

import { h } from "../../page/dom";

const KEPT_MS = 60_000;

export function save(file: Blob, name: string): void {
  const link = h("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}
