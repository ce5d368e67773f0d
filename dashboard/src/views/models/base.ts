/** The file that the model's versions descend from, and the upgrade to another. */

import type { App, Said } from "../../app/app";
import { staleOf } from "../../app/queries";
import { modelPath } from "../../daemon/api";
import type { Job, Model, ModelBase, Upgrade } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { count, plural } from "../../page/format";
import { fact, fileButton, loading, outcome, remover, section, when } from "../parts/parts";

const DIGEST_SHOWN = 12;

export function baseView(app: App, model: Model): HTMLElement {
  const { name } = model;
  const path = modelPath(name, "/base");
  const base = app.resources.read<ModelBase>(modelPath(name, "/base"));
  const act = `upgrade:${name}`;
  const send = (file: File): void => void app.act(act, staleOf(model), () => app.api.put<Job>(path, formOf(file)).then(begun));
  return section(
    "Base",
    { id: "base" },
    h("p", { class: "quiet" }, "The file that versions descend from. A better one, of any architecture, is trained on the device’s samples, and serves once the gate finds it no worse."),
    base ? facts(base) : loading(base),
    base?.upgrade != null && upgradeView(app, model, base.upgrade),
    h("div", { class: "buttons", "data-key": "file" }, fileButton("Upgrade to a file", send, { accept: ".onnx", disabled: app.state.pending.has(act) }), outcome(app, act)),
  );
}

function formOf(file: File): FormData {
  const form = new FormData();
  form.append("model", file);
  return form;
}

function begun({ id }: Job): Said {
  return `Job ${id} trains the upgrade when the policy allows.`;
}

function facts({ base, sha256, adopted_at: adopted, versions, former }: ModelBase): Child {
  return h(
    "dl",
    { class: "facts" },
    fact("number", count(base)),
    fact("SHA-256", sha256.slice(0, DIGEST_SHOWN)),
    fact("since", when(adopted)),
    fact("versions", versions.join(", ")),
    former.map((each) => fact(`base ${each.base}`, each.versions.length > 0 ? plural(each.versions.length, "version") : "no version")),
  );
}

function upgradeView(app: App, { name }: Model, { state, reason, retry_at: retry }: Upgrade): Child {
  const waits = retry === null ? "" : ` It is tried again with ${count(retry)} labelled samples.`;
  return h(
    "div",
    { "data-key": "upgrade" },
    h("p", {}, `An upgrade is ${state}: ${reason}${reason.endsWith(".") ? "" : "."}${waits}`),
    h("div", { class: "buttons" }, remover(app, {
      label: "Drop …",
      about: "the upgrade",
      title: `Drop the upgrade of ${name}?`,
      detail: "Its job is cancelled, and the versions that it made are deleted. Apps notice nothing.",
      yes: "Drop the upgrade",
      name: `drop-upgrade:${name}`,
      remove: () => app.api.remove(modelPath(name, "/base")),
      stale: staleOf({ name }),
      said: "Upgrade dropped.",
    })),
  );
}
