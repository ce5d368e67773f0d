/** Asks for the token. The field has no name, so that no form can put it into a URL. */

import { h } from "../page/dom";

export function tokenView(problem: string | null): HTMLElement {
  return h(
    "main",
    { class: "gate" },
    h("h1", {}, "Hone"),
    h("p", {}, "Watch and control training on this device. Run ", h("code", {}, "honed dashboard"), " to sign in, or paste a token."),
    h(
      "form",
      { id: "token-form", autocomplete: "off" },
      h("label", { for: "token" }, "Token"),
      h("input", {
        id: "token",
        type: "password",
        required: true,
        autocomplete: "off",
        spellcheck: "false",
        "aria-describedby": "token-help",
        "aria-invalid": problem !== null,
      }),
      h("p", { role: "alert", class: "problem" }, problem),
      h("button", { type: "submit", class: "primary" }, "Sign in"),
    ),
    h(
      "p",
      { id: "token-help", class: "quiet" },
      "The admin token is in the file ",
      h("code", {}, "admin.token"),
      " of the data folder; ",
      h("code", {}, "honed serve"),
      " prints its path when it starts. This tab keeps the token until it is closed.",
    ),
  );
}
