"""`honed gate`, `quota`, `retention` and `federation`: settings of one model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from cli import assignments
from cli.client import Client, model_path
from cli.options import Group, model_argument
from cli.output import echo, echo_fields

TO_DEFAULT, NO_LIMIT = "takes a setting back to its default", "is no limit"
Settings = dict[str, Any]


def settings_group(
    name: str,
    *,
    about: str,
    example: str,
    null: str,
    page: str,
    part: str | None = None,
    show: Callable[[Settings], None] = assignments.echo_settings,
) -> click.Group:
    """A group with `show` and `set`, as `honed policy` has them.

    name: of the field of a model that `set` changes, and of the group. null: what that is as a
    value. part: of the model's path, where they are read; by default they are that field.
    """
    group = Group(name, help=f"Show or change {about} docs/{page} explains each setting.")

    @group.command("show")
    @model_argument
    def show_settings(client: Client, model: str) -> None:
        """Show the settings of MODEL in force."""
        shown = client.get(model_path(model, part)) if part else client.get(model_path(model))[name]
        echo(shown, show)

    @group.command("set", help=_about_set(name, example, null))
    @model_argument
    @click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
    def set_settings(client: Client, model: str, settings: tuple[str, ...]) -> None:
        changed = client.patch(model_path(model), {name: assignments.parse(settings)})
        shown = client.get(model_path(model, part)) if part else changed[name]
        echo(shown, show)

    return group


def _about_set(name: str, example: str, null: str) -> str:
    return (
        f"Change some settings of MODEL and keep the others: honed {name} set digits {example}.\n\n"
        f"A value is JSON, or a plain word; null {null}."
    )


def _echo_federation(settings: Settings) -> None:
    spent = settings.pop("spent")
    today = settings.pop("rounds_today")
    fields = {name: assignments.shown(value) for name, value in settings.items()}
    epsilon, unnoised = spent["epsilon"], spent["rounds_without_noise"]
    fields["spent"] = "without bound" if epsilon is None else f"epsilon {epsilon:.3g}"
    fields["spent"] += f" by {spent['rounds']} rounds with noise"
    if unnoised:
        fields["spent"] += f"; {unnoised} rounds had none"
    echo_fields([*fields.items(), ("rounds today", today)])


gate = settings_group(
    "gate",
    about="when a new version of a model becomes what apps get.",
    example="metric=loss margin=0.05",
    null=TO_DEFAULT,
    page="promotion.md",
)
quota = settings_group(
    "quota",
    about="how many samples a model keeps, and which of them go first.",
    example="max_samples=10000 when_full=oldest",
    null=NO_LIMIT,
    page="samples.md",
)
retention = settings_group(
    "retention",
    about="how many versions of a model are kept, and how long.",
    example="max_versions=10 max_age_days=90",
    null=NO_LIMIT,
    page="promotion.md",
)
federation = settings_group(
    "federation",
    about="the consent of a model to federated training, and show what of its privacy was spent.",
    example="allowed=true superlink=fl.example:9092 epsilon=8",
    null=TO_DEFAULT,
    page="federated.md",
    part="federation",
    show=_echo_federation,
)
