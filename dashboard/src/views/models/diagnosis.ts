/** The diagnosis of a file: inputs, loss, the cut, and its parameters as a tree with counts. */

import { type Child, h, s } from "../../page/dom";
import { bytes, count, decimal, plural } from "../../page/format";
import type { Diagnosis, Parameter, Tensor } from "../../daemon/types";
import { fact, section } from "../parts/parts";

const LEAVES_SHOWN = 200;
const OPEN_TO = 12;
const WHY: Record<string, string> = {
  constant: "constant",
  frozen: "frozen",
  integer: "integer",
  mask: "mask",
  no_gradient: "no gradient",
  precision: "not float32",
  quantized: "quantized",
  statistic: "running statistic",
};

interface Branch {
  name: string;
  leaves: Parameter[];
  branches: Map<string, Branch>;
}

export function diagnosisView(found: Diagnosis): HTMLElement {
  return h(
    "div",
    { class: "columns", "data-key": "diagnosis" },
    section(
      found.ready ? "File contents" : "The file cannot be registered with these settings",
      { id: "holds", class: found.ready ? "" : "refused" },
      problemsView(found),
      h(
        "dl",
        { class: "facts" },
        found.inputs.map((each) => fact(`input ${each.name}`, shapeText(each))),
        found.outputs.map((each) => fact(`output ${each.name}`, shapeText(each))),
        found.opset !== null && fact("opset", String(found.opset)),
        fact("operators", count(found.operators)),
        found.producer !== "" && fact("producer", found.producer),
        found.head !== null && fact("head", h("code", {}, found.head.weight)),
      ),
      found.suggested !== null && h("p", { "data-key": "because" }, h("strong", {}, "Loss: "), found.suggested.because, "."),
      classesView(found),
      found.notes.length > 0 && h("ul", { class: "quiet", "data-key": "notes" }, found.notes.map((note) => h("li", {}, note))),
    ),
    section("Parameters", { id: "parameters" }, sharesView(found), cutView(found), treeView(found.parameters.items)),
  );
}

function problemsView({ problems }: Diagnosis): Child {
  const ofGraph = problems.filter(({ pointer }) => !pointer.startsWith("/spec/"));
  if (problems.length === 0) return null;
  if (ofGraph.length === 0) return h("p", { class: "problem", "data-key": "problems" }, "See the errors next to the fields above.");
  return h("div", { class: "problem", role: "alert", "data-key": "problems" }, h("ul", {}, ofGraph.map(({ detail }) => h("li", {}, detail))));
}

function shapeText({ dtype, shape }: Tensor): string {
  return shape === null ? dtype : `${shape.map((size) => size ?? "?").join("×") || "1"} ${dtype}`;
}

function classesView({ target }: Diagnosis): Child {
  if (!target || target.num_classes === null) return null;
  const names = target.classes === null ? "unnamed in the file" : target.classes.join(", ");
  return h("p", { "data-key": "classes" }, h("strong", {}, `${plural(target.num_classes, "class", "classes")}: `), names);
}

/** Counts of parameters that train, that are frozen above the cut, and below it. */
function sharesView({ parameters }: Diagnosis): HTMLElement {
  const sum = (which: (item: Parameter) => boolean): number =>
    parameters.items.filter(which).reduce((total, item) => total + item.count, 0);
  const parts = [
    { kind: "below", words: "below the cut", size: sum((item) => !item.trains && item.below) },
    { kind: "frozen", words: "frozen", size: sum((item) => !item.trains && !item.below) },
    { kind: "trains", words: "trainable", size: sum((item) => item.trains) },
  ];
  const total = Math.max(1, parts.reduce((all, { size }) => all + size, 0));
  let at = 0;
  const bars = parts.map(({ kind, size }) => {
    const x = at;
    at += (size / total) * 100;
    return s("rect", { class: kind, x, width: (size / total) * 100, height: 8 });
  });
  return h(
    "div",
    { class: "shares", "data-key": "shares" },
    s("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" }, bars),
    h(
      "ul",
      { class: "legend" },
      parts.filter(({ size, kind }) => size > 0 || kind === "trains").map(({ kind, words, size }) => h("li", { class: kind }, h("span", { class: "number" }, count(size)), ` ${words}`)),
    ),
  );
}

function cutView({ cut, parameters }: Diagnosis): Child {
  if (cut === null) {
    return parameters.frozen === 0 ? null : h("p", { class: "quiet", "data-key": "cut" }, "No cut: no frozen layers come before the trainable ones.");
  }
  const what = `${plural(cut.nodes, "operator")} with ${plural(cut.parameters, "parameter")} lie below it, ${decimal(cut.milliseconds)} ms per sample`;
  const across = `${bytes(cut.feature_bytes)} of features instead of ${bytes(cut.input_bytes)} of input`;
  const how = cut.pays ? `They run once per sample, which is then stored as ${across}.` : `It would not pay off (${across}), so it is not made.`;
  return h("p", { "data-key": "cut" }, h("strong", {}, "The cut"), " is at ", h("code", {}, cut.tensors.join(", ")), `. ${what}. ${how}`);
}

function treeView(items: Parameter[]): HTMLElement {
  if (items.length === 0) return h("p", { class: "quiet", "data-key": "tree" }, "Parameters of artifacts are not listed.");
  const root: Branch = { name: "", leaves: [], branches: new Map() };
  for (const item of items) grow(root, item, item.name.split(/[./]+/).filter(Boolean));
  return h("div", { class: "tree", "data-key": "tree", role: "group", "aria-label": "Parameters" }, branchItems(root, items.length <= OPEN_TO));
}

function grow(branch: Branch, item: Parameter, parts: string[]): void {
  const [first, ...rest] = parts;
  if (first === undefined || rest.length === 0) {
    branch.leaves.push(item);
    return;
  }
  const next = branch.branches.get(first) ?? { name: first, leaves: [], branches: new Map() };
  branch.branches.set(first, next);
  grow(next, item, rest);
}

function branchItems(branch: Branch, isOpen: boolean): HTMLElement {
  const hidden = branch.leaves.length - LEAVES_SHOWN;
  return h(
    "ul",
    {},
    [...branch.branches.values()].map((each) => branchView(each, isOpen)),
    branch.leaves.slice(0, LEAVES_SHOWN).map(leafView),
    hidden > 0 && h("li", { class: "quiet" }, `and ${plural(hidden, "more parameter")}`),
  );
}

/** A branch whose only child is a branch is merged with it: encoder.layers. */
function branchView(branch: Branch, isOpen: boolean): HTMLElement {
  let [only, name] = [branch, branch.name];
  while (only.leaves.length === 0 && only.branches.size === 1) {
    const [next] = only.branches.values();
    if (next === undefined) break;
    only = next;
    name = `${name}.${next.name}`;
  }
  const all = leavesOf(only);
  const total = all.reduce((sum, item) => sum + item.count, 0);
  const training = all.filter((item) => item.trains).reduce((sum, item) => sum + item.count, 0);
  const fate = training === total ? "trains" : training === 0 ? (all.every((item) => item.below) ? "below" : "frozen") : "partly";
  return h(
    "li",
    { "data-key": name },
    h(
      "details",
      { open: isOpen },
      h("summary", { class: fate }, h("code", {}, name), h("span", { class: "number" }, ` ${count(total)}`), h("span", { class: "fate" }, { trains: "trainable", below: "below the cut", frozen: "frozen", partly: `${count(training)} trainable` }[fate])),
      branchItems(only, isOpen),
    ),
  );
}

function leavesOf(branch: Branch): Parameter[] {
  return [...branch.leaves, ...[...branch.branches.values()].flatMap(leavesOf)];
}

function leafView(item: Parameter): HTMLElement {
  const why = item.trains ? "trainable" : (WHY[item.why_not ?? ""] ?? "frozen");
  return h(
    "li",
    { class: `leaf ${item.trains ? "trains" : item.below ? "below" : "frozen"}`, "data-key": item.name, title: item.detail },
    h("code", {}, item.name.split(/[./]+/).filter(Boolean).at(-1) ?? item.name),
    h("span", { class: "number" }, ` ${count(item.count)}`),
    h("span", { class: "quiet" }, ` ${item.shape.join("×") || "1"}`),
    h("span", { class: "fate" }, item.below && !item.trains ? `${why}, below the cut` : why),
    item.detail !== null && item.why_not !== "frozen" && h("span", { class: "quiet detail" }, item.detail),
  );
}
