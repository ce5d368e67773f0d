/** Other forms of a version: made on demand, measured, downloaded; and why one was refused. */

import type { App } from "../../app/app";
import { modelPath, withQuery } from "../../daemon/api";
import type { Model, Version } from "../../daemon/types";
import { h } from "../../page/dom";
import { bytes } from "../../page/format";
import { downloader } from "../parts/save";

const KINDS = [
  { variant: "int8", title: "int8", what: "quantized, a quarter of the size", suffix: ".int8.onnx" },
  { variant: "ort", title: "ORT format", what: "for ONNX Runtime on phones", suffix: ".ort" },
] as const;

export function variantsView(app: App, model: Model, version: Version): HTMLElement {
  const made = version.variants.length;
  return h(
    "details",
    { class: "variants", "data-key": "variants" },
    h("summary", {}, made === 0 ? "Variants" : `Variants (${made} created)`),
    h("ul", { class: "rows" }, KINDS.map((kind) => variantItem(app, model, version, kind))),
  );
}

function variantItem(app: App, { name }: Model, version: Version, { variant, title, what, suffix }: (typeof KINDS)[number]): HTMLElement {
  const number = version.version;
  const known = version.variants.find((each) => each.variant === variant);
  const size = known?.size_bytes ?? null;
  const isRefused = known !== undefined && size === null;
  return h(
    "li",
    { "data-key": variant },
    h("p", {}, h("strong", {}, title), h("span", { class: "quiet" }, ` ${size === null ? what : bytes(size)}`)),
    known !== undefined && h("p", { class: isRefused ? "problem" : "quiet" }, known.reason),
    !isRefused &&
      downloader(app, withQuery(modelPath(name, `/versions/${number}/model.onnx`), { variant }), `${name}-${number}${suffix}`, {
        name: `variant:${name}:${number}:${variant}`,
        label: known ? "Download" : "Create and download",
        about: `${title} of version ${number}`,
        stale: [modelPath(name, "/versions")],
        said: `${title} of version ${number} downloaded.`,
      }),
  );
}
