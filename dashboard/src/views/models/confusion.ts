/** A confusion matrix: rows are the truth, columns the prediction. */

import { h } from "../../page/dom";
import { count } from "../../page/format";
import { scrolled, section } from "../parts/parts";

/** With more classes only confused pairs are listed: cells would be too small. */
const MOST_CELLS = 20;
const PAIRS_SHOWN = 20;
const STEPS = 5;

/** other: the other version's matrix, to compare cells with. */
export function matrixView(title: string, id: string, matrix: number[][], classes: string[] | null, other: number[][]): HTMLElement {
  const names = matrix.map((_, index) => classes?.[index] ?? String(index));
  return section(title, { id }, matrix.length <= MOST_CELLS ? table(title, matrix, names, other) : pairs(title, matrix, names));
}

function table(title: string, matrix: number[][], names: string[], other: number[][]): HTMLElement {
  return scrolled(
    `Confusion matrix of ${title}`,
    h(
      "table",
      { class: "confusion" },
      h("caption", { class: "quiet" }, "Rows: the label. Columns: the prediction."),
      h(
        "thead",
        {},
        h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col" }, h("span", { title: name }, name)))),
      ),
      h(
        "tbody",
        {},
        matrix.map((row, truth) => {
          const total = Math.max(1, row.reduce((sum, value) => sum + value, 0));
          return h(
            "tr",
            {},
            h("th", { scope: "row" }, h("span", { title: names[truth] ?? "" }, names[truth] ?? "")),
            row.map((value, guess) => cell(value, value / total, truth === guess, value - (other[truth]?.[guess] ?? 0), `${names[truth]} as ${names[guess]}`)),
          );
        }),
      ),
    ),
  );
}

function cell(value: number, share: number, isRight: boolean, change: number, what: string): HTMLElement {
  const step = value === 0 ? 0 : Math.max(1, Math.ceil(share * STEPS));
  const told = change === 0 ? "" : `, ${change > 0 ? "+" : "−"}${Math.abs(change)} against the other version`;
  return h("td", { class: `${isRight ? "right" : "wrong"} step-${step} ${change === 0 ? "" : "moved"}`, title: `${what}: ${value}${told}` }, value === 0 ? "" : count(value));
}

function pairs(title: string, matrix: number[][], names: string[]): HTMLElement {
  const found = matrix.flatMap((row, truth) => row.map((value, guess) => ({ value, truth, guess }))).filter(({ value, truth, guess }) => value > 0 && truth !== guess);
  found.sort((a, b) => b.value - a.value);
  return h(
    "div",
    {},
    h("p", { class: "quiet" }, found.length === 0 ? "No confusions." : "Most frequent confusions:"),
    h("ul", { class: "rows", "aria-label": `What ${title} confuses` }, found.slice(0, PAIRS_SHOWN).map(({ value, truth, guess }) => h("li", {}, `${names[truth]} as ${names[guess]} `, h("span", { class: "number" }, count(value))))),
  );
}
