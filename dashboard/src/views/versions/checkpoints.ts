/** A model's checkpoints: trained from, downloaded, kept, deleted. */

import type { App } from "../../app/app";
import { pagesOf } from "../../app/queries";
import { to } from "../../app/route";
import { modelPath } from "../../daemon/api";
import type { Checkpoint, Model } from "../../daemon/types";
import { h } from "../../page/dom";
import { bytes, count } from "../../page/format";
import { openTraining } from "../models/train";
import { moreButton } from "../parts/filters";
import { settingsForm } from "../parts/form";
import { badge, opener, remover, section, when } from "../parts/parts";
import { downloader } from "../parts/save";

const PAGE = 5;

/** null while there are none. */
export function checkpointsView(app: App, model: Model): HTMLElement | null {
  const path = modelPath(model.name, "/checkpoints");
  const { items, isWhole } = pagesOf<Checkpoint>(app, path, PAGE);
  if (!items?.length) return null;
  return section(
    "Checkpoints",
    { id: "checkpoints" },
    h("ul", { class: "rows", "data-key": "list" }, items.map((each) => checkpointItem(app, model, each))),
    moreButton(app, path, isWhole),
  );
}

function checkpointItem(app: App, model: Model, checkpoint: Checkpoint): HTMLElement {
  const { id, role, pinned, job_id: job, step, epoch, size_bytes: size, note } = checkpoint;
  const about = `checkpoint ${id}`;
  return h(
    "li",
    { "data-key": `checkpoint-${id}`, "aria-label": `Checkpoint ${id}` },
    h(
      "div",
      { class: "row-head" },
      h("h3", {}, `Checkpoint ${id}`),
      h("span", { class: "badge" }, role),
      pinned && badge("latest", "pinned"),
      h("p", { class: "quiet" }, when(checkpoint.created_at)),
    ),
    h("p", { class: "quiet" }, h("a", { href: to(["jobs", job]) }, `job ${job}`), `, step ${count(step)}, epoch ${count(epoch)} · ${bytes(size)}`),
    note !== "" && h("p", {}, note),
    h(
      "div",
      { class: "buttons" },
      opener(`train-from:${id}`, "Train from this …", () => openTraining(app, model, checkpoint), about),
      downloader(app, `/v1/checkpoints/${id}/content`, `checkpoint-${id}`, { name: `content:${id}`, label: "Download", about }),
    ),
    h(
      "details",
      {},
      h("summary", {}, "Pin, note, delete"),
      h(
        "div",
        { class: "stack" },
        changeForm(app, model, checkpoint),
        h("div", { class: "buttons" }, deleteButton(app, model, id)),
      ),
    ),
  );
}

function changeForm(app: App, { name }: Model, { id, pinned, note }: Checkpoint): HTMLElement {
  return settingsForm(app, {
    name: `checkpoint:${id}`,
    groups: [
      {
        title: `Checkpoint ${id}`,
        settings: [
          { name: "note", title: "Note", kind: "text" },
          { name: "pinned", title: "Keep until it is deleted by hand", kind: "flag" },
        ],
      },
    ],
    values: { pinned, note: note || null },
    stale: [modelPath(name, "/checkpoints")],
    send: async (changed) => {
      // null would leave the note as it is.
      await app.api.patch(`/v1/checkpoints/${id}`, "note" in changed ? { ...changed, note: changed.note ?? "" } : changed);
      return `Checkpoint ${id} saved.`;
    },
  });
}

function deleteButton(app: App, { name }: Model, id: number): HTMLElement {
  return remover(app, {
    label: "Delete …",
    about: `checkpoint ${id}`,
    title: `Delete checkpoint ${id}?`,
    detail: "Jobs can no longer start from it.",
    yes: "Delete the checkpoint",
    name: `delete-checkpoint:${id}`,
    remove: () => app.api.remove(`/v1/checkpoints/${id}`),
    stale: [modelPath(name, "/checkpoints")],
    said: `Checkpoint ${id} deleted.`,
  });
}
