/** How a model goes on with a text that is typed. */

import type { App } from "../../app/app";
import { modelPath, Refused, Unreachable } from "../../daemon/api";
import type { Model } from "../../daemon/types";
import { element, h } from "../../page/dom";
import { percent } from "../../page/format";

const SUGGESTIONS = 3;
const TOKENS = 40;
const FIELD = "typed";

interface Suggestion {
  text: string;
  probability: number;
  /** How many characters at the end of the text it stands in place of. */
  replaces: number;
}

interface Typed extends Record<string, unknown> {
  text: string;
  suggestions: Suggestion[];
  problem: string | null;
  /** Aborts the request that is under way. */
  abort: AbortController | null;
}

/** A field with the likeliest next words below it, which a click or a number key with Alt takes. */
export function completionField(app: App, model: Model): HTMLElement {
  const typed = app.draft<Typed>(`typed:${model.name}`, () => ({ text: "", suggestions: [], problem: null, abort: null }));
  const takeOne = ({ text, replaces }: Suggestion): void => {
    const before = typed.text.slice(0, typed.text.length - replaces);
    setText(typed, `${before}${before === "" || /\s$/.test(before) ? "" : " "}${text} `);
    void suggest(app, model, typed);
  };
  const type = (event: Event): void => {
    typed.text = (event.currentTarget as HTMLTextAreaElement).value;
    void suggest(app, model, typed);
  };
  const press = (event: KeyboardEvent): void => {
    const wanted = event.altKey ? typed.suggestions[Number(event.key) - 1] : undefined;
    if (wanted === undefined) return;
    event.preventDefault();
    takeOne(wanted);
  };
  return h(
    "div",
    { class: "form", "data-key": "typed" },
    h(
      "label",
      { class: "form" },
      h("span", {}, "Text", h("span", { class: "quiet" }, " the model suggests how it goes on; Alt+1 to 3 take a word")),
      h("textarea", { id: FIELD, rows: 4, dir: "auto", onkeydown: press, oninput: type }, typed.text),
    ),
    h(
      "ul",
      { class: "suggestions", "aria-label": "Suggestions" },
      typed.suggestions.map((each) =>
        h(
          "li",
          { "data-key": each.text },
          h("button", { type: "button", onclick: () => takeOne(each) }, each.text, h("span", { class: "quiet number" }, ` ${percent(each.probability)}`)),
        ),
      ),
    ),
    h("div", { class: "buttons" }, h("button", { type: "button", disabled: typed.abort !== null, onclick: () => void writeOn(app, model, typed) }, "Write on")),
    typed.problem === null ? null : h("p", { class: "problem", role: "alert" }, typed.problem),
  );
}

/** The field keeps what was typed when the page is drawn, so it is set by hand. */
function setText(typed: Typed, text: string): void {
  typed.text = text;
  const field = element(FIELD, HTMLTextAreaElement);
  field.value = text;
  field.focus();
}

async function suggest(app: App, model: Model, typed: Typed): Promise<void> {
  if (typed.text.trim() === "") {
    typed.abort?.abort();
    typed.suggestions = [];
    app.draw();
    return;
  }
  const answer = await complete<{ suggestions: Suggestion[] }>(app, model, typed, { suggestions: SUGGESTIONS });
  if (answer !== null) typed.suggestions = answer.suggestions;
  app.draw();
}

async function writeOn(app: App, model: Model, typed: Typed): Promise<void> {
  const answer = await complete<{ text: string }>(app, model, typed, { max_tokens: TOKENS, temperature: 0.7, top_k: 40 });
  if (answer === null) return app.draw();
  setText(typed, typed.text + answer.text);
  await suggest(app, model, typed);
}

/** The answer for what is typed now; null if it was refused, or something else was typed meanwhile. */
async function complete<T>(app: App, model: Model, typed: Typed, options: Record<string, unknown>): Promise<T | null> {
  typed.abort?.abort();
  const controller = (typed.abort = new AbortController());
  app.draw();
  try {
    const answer = await app.api.upload<T>(modelPath(model.name, "/complete"), json({ text: typed.text, ...options }), controller.signal);
    typed.problem = null;
    return controller.signal.aborted ? null : answer;
  } catch (error) {
    if (controller.signal.aborted) return null;
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    typed.problem = error.message;
    typed.suggestions = [];
    return null;
  } finally {
    if (typed.abort === controller) typed.abort = null;
  }
}

function json(body: Record<string, unknown>): Blob {
  return new Blob([JSON.stringify(body)], { type: "application/json" });
}
