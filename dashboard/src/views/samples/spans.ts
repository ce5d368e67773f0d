/** Spans of a text: highlighted, and labelled by selecting a part of it and choosing a type. */

import type { App } from "../../app/app";
import { texts } from "../../app/pictures";
import { label } from "../../app/labelling";
import { type Listed, workOf } from "../../app/samples";
import type { Model } from "../../daemon/types";
import { type Child, h } from "../../page/dom";
import { percent } from "../../page/format";

/** Characters are Unicode code points, as in the daemon: what `Array.from` makes of a text. */
export interface Span {
  start: number;
  end: number;
  label: string;
  score?: number;
}

const COLOURS = 5;
const TYPE_KEYS = "123456789";
const TEXT_ID = "spans-text";

/** A label's spans; null if it has none that are known. */
export function spansOf(model: Model, value: unknown): Span[] | null {
  return model.target.span_types !== null && Array.isArray(value) ? (value as Span[]) : null;
}

/** A text in which spans are marked. remove: takes one away. */
export function marked({ target }: Model, text: string, spans: readonly Span[], remove?: (span: Span) => void): Child[] {
  const characters = Array.from(text);
  const part = (start: number, end?: number): string => characters.slice(start, end).join("");
  let done = 0;
  const children: Child[] = [];
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    if (span.start >= characters.length) break;
    children.push(part(done, span.start), mark(target.span_types ?? [], part(span.start, span.end), span, remove));
    done = span.end;
  }
  return [...children, part(done)];
}

function mark(types: readonly string[], text: string, span: Span, remove?: (span: Span) => void): HTMLElement {
  const { label: type, score, start, end } = span;
  const attributes = {
    class: `span colour-${types.indexOf(type) % COLOURS}`,
    "data-type": type,
    "data-key": `${start}-${end}-${type}`,
    title: score === undefined ? type : `${type}, ${percent(score)}`,
  };
  if (remove === undefined) return h("mark", attributes, text);
  return h("mark", { ...attributes, role: "button", tabindex: 0, "aria-label": `${text}, ${type}: take away`, onclick: () => remove(span), onkeydown: (event: KeyboardEvent) => event.key === "Enter" && remove(span) }, text);
}

/** The whole text of the sample that has the focus, with the buttons that label its parts. */
export function labellingView(app: App, model: Model, listed: Listed | null | undefined): Child {
  const types = model.target.span_types;
  const { active, unsaved } = workOf(app, model.name);
  const known = listed?.items.find(({ id }) => id === active);
  if (types === null || known === undefined) return null;
  const text = texts(app, model.name, known.id)?.[0];
  if (text === undefined) return null;
  const spans = spansOf(model, (unsaved.get(known.id) ?? known).label);
  const give = (value: Span[]): void => void label(app, model, [known.id], value);
  const add = (type: string | undefined): void => {
    const selected = selectedCharacters();
    if (selected === null || type === undefined) return;
    const others = (spans ?? []).filter(({ start, end }) => end <= selected.start || start >= selected.end);
    document.getSelection()?.removeAllRanges();
    give([...others, { ...selected, label: type }].map(({ start, end, label: name }) => ({ start, end, label: name })));
  };
  const isBusy = app.state.pending.has(`label:${model.name}`) || app.state.connection === "lost";
  // A press would take the selection away before the click.
  const keepSelection = (event: PointerEvent): void => event.preventDefault();
  return h(
    "div",
    {
      class: "labelling",
      "data-key": `labelling-${known.id}`,
      role: "group",
      "aria-label": `Spans of sample ${known.id}`,
      onkeydown: (event: KeyboardEvent) => add(types[TYPE_KEYS.indexOf(event.key)]),
    },
    h("p", { id: TEXT_ID, class: "spans", dir: "auto", tabindex: 0, "aria-label": `Text of sample ${known.id}` }, marked(model, text, spans ?? [], (gone) => give((spans ?? []).filter((each) => each !== gone)))),
    h(
      "div",
      { class: "toolbar" },
      h("span", { class: "quiet" }, "Select a part of the text, then its type; press a span to take it away."),
      types.map((type, at) =>
        h(
          "button",
          { type: "button", "data-key": `type-${at}`, class: `colour-${at % COLOURS}`, disabled: isBusy, onpointerdown: keepSelection, onclick: () => add(type) },
          at < TYPE_KEYS.length ? h("kbd", {}, TYPE_KEYS[at] ?? "") : null,
          ` ${type}`,
        ),
      ),
      h("button", { type: "button", "data-key": "none", disabled: isBusy || spans?.length === 0, onclick: () => give([]) }, "No spans"),
    ),
  );
}

/** The part of the text that is selected, without spaces around it. */
function selectedCharacters(): { start: number; end: number } | null {
  const shown = document.getElementById(TEXT_ID);
  const selection = document.getSelection();
  if (shown === null || selection === null || selection.rangeCount === 0) return null;
  const range = selection.getRangeAt(0);
  if (!shown.contains(range.startContainer) || !shown.contains(range.endContainer)) return null;
  const before = document.createRange();
  before.setStart(shown, 0);
  before.setEnd(range.startContainer, range.startOffset);
  const text = range.toString();
  const start = Array.from(before.toString()).length + Array.from(text).length - Array.from(text.trimStart()).length;
  const end = start + Array.from(text.trim()).length;
  return start < end ? { start, end } : null;
}
