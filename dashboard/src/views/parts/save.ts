/** Hands files to the browser's downloads. */

import type { App } from "../../app/app";
import { h } from "../../page/dom";
import { press, type Press } from "./parts";

const KEPT_MS = 60_000;

/** A button that saves the bytes of an address as a file. said: what it says then. */
export function downloader(app: App, path: string, file: string, { said = null, ...button }: Omit<Press, "run"> & { said?: string | null }): HTMLElement {
  const run = async (): Promise<string | null> => {
    save(await app.api.bytes(path), file);
    return said;
  };
  return press(app, { ...button, run });
}

function save(file: Blob, name: string): void {
  const link = h("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), KEPT_MS);
}
