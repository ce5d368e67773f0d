/** The drop zone and file chooser, with the progress of the upload. */

import type { App } from "../../app/app";
import { h } from "../../page/dom";
import { count, plural } from "../../page/format";
import { namesOf } from "../../app/labels";
import { fileKind } from "../../app/pictures";
import type { Model } from "../../daemon/types";
import { chosen, send, uploadOf } from "../../app/uploads";
import { fileButton } from "../parts/parts";

const FAULTS_SHOWN = 20;

export function uploadView(app: App, model: Model): HTMLElement {
  const upload = uploadOf(app, model.name);
  const kind = fileKind(model);
  const takes = { image: "images, folders", audio: "recordings, folders", text: ".txt, .csv or .jsonl files, folders", tensors: ".npz, .csv or .json files" }[kind ?? "tensors"];
  const isOff = upload.stop !== null || app.state.connection === "lost";
  const hidden = upload.faults.length - FAULTS_SHOWN;
  const field = (title: string, isFolder: boolean): HTMLElement =>
    fileButton(title, (_, files) => void send(app, model, chosen(files)), { multiple: true, webkitdirectory: isFolder, disabled: isOff });
  return h(
    "div",
    { class: "drop", "data-key": "upload", role: "group", "aria-label": "Add samples" },
    h("p", { class: "quiet" }, `Drop ${takes} or sample archives (.zip) anywhere here, or`),
    field("Choose files", false),
    kind === null ? null : field("Choose a folder", true),
    kind !== null && namesOf(model).length > 0 ? labelField(app, model) : null,
    upload.stop === null ? null : progress(app, model),
    upload.faults.length === 0 ? null : h("div", { class: "problem", role: "alert" }, h("ul", {}, upload.faults.slice(0, FAULTS_SHOWN).map((fault) => h("li", {}, fault)), hidden > 0 && h("li", {}, `and ${plural(hidden, "more problem")}`))),
  );
}

function labelField(app: App, model: Model): HTMLElement {
  const upload = uploadOf(app, model.name);
  const choose = (event: Event): void => {
    upload.label = (event.currentTarget as HTMLSelectElement).value;
  };
  const options = [["folder", "by folder"], ["none", "none"], ...namesOf(model).map((name) => [name, name])];
  return h(
    "label",
    { class: "inline" },
    h("span", { class: "quiet" }, "Label"),
    h("select", { onchange: choose }, options.map(([value, text]) => h("option", { value: value ?? "", selected: value === upload.label }, text ?? ""))),
  );
}

function progress(app: App, model: Model): HTMLElement {
  const { sent, total, stop } = uploadOf(app, model.name);
  return h(
    "div",
    { class: "sending", role: "status", "data-key": "sending" },
    h("progress", { max: total, value: sent, "aria-label": "Files sent" }),
    h("span", { class: "quiet number" }, `${count(sent)} of ${plural(total, "file")} sent`),
    h("button", { type: "button", onclick: () => stop?.abort() }, "Stop"),
  );
}
