"""`honed complete`: next words and generated text."""

from __future__ import annotations

from typing import Any

import click

from cli.client import Client, model_path
from cli.errors import Failure
from cli.options import ClientCommand, given, model_argument
from cli.output import echo, echo_table, echo_text, wants_json
from storage.database.codec import load

DATA, ERROR = "data: ", "event: error"


@click.command(cls=ClientCommand)
@model_argument
@click.argument("text")
@click.option(
    "--suggestions", type=click.IntRange(1, 20), help="The likeliest next words, this many."
)
@click.option("--max-tokens", type=click.IntRange(min=1), help="Of the generated text, at most.")
@click.option(
    "--temperature", type=click.FloatRange(min=0), help="0 takes the likeliest token each time."
)
@click.option("--top-k", type=click.IntRange(min=1), help="Draw from the likeliest tokens alone.")
@click.option("--top-p", type=float, help="Draw from the likeliest that have this share together.")
@click.option("--stop", multiple=True, help="A text that ends the generated one; may be repeated.")
@click.option("--seed", type=click.IntRange(min=0), help="The same seed gives the same text.")
def complete(client: Client, /, model: str, text: str, **asked: Any) -> None:
    """Have the promoted version of MODEL continue TEXT.

    With --suggestions, the likeliest next words and completions of the word that TEXT ends with;
    else generated text, written as it comes.
    """
    body = {"text": text, **given(asked)}
    path = model_path(model, "complete")
    if "suggestions" in body or wants_json():
        suggested = client.ask("POST", path, json=body)
        echo(suggested, _echo_suggestions)
        return
    with client.stream("POST", path, json=body | {"stream": True}) as answer:
        is_error = False
        for line in answer.iter_lines():
            is_error = is_error or line == ERROR
            if line.startswith(DATA):
                _echo_event(load(line.removeprefix(DATA)), is_error=is_error)
    echo_text()


def _echo_suggestions(answer: dict[str, Any]) -> None:
    rows = [(suggestion["text"], suggestion["probability"]) for suggestion in answer["suggestions"]]
    echo_table(("WORD", "PROBABILITY"), rows)


def _echo_event(event: dict[str, Any], *, is_error: bool) -> None:
    if is_error:
        raise Failure(event["detail"])
    echo_text(event["text"], is_line=False)
