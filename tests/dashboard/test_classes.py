"""The classes of a model in the console: named, added, renamed, merged, removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from browser import Tab
from support import Served, blobs, mlp


def classes(served: Served, model: str) -> list[tuple[str, int]]:
    """Names by index, with the numbers of samples."""
    items = served.http.get(f"/v1/models/{model}/classes").json()["items"]
    return [(entry["name"], entry["train"] + entry["validation"]) for entry in items]


def test_classes_are_added_renamed_merged_and_removed(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("pets", mlp(6, 8, 3), classes=["cat", "dog", "a/b"])
    served.upload("pets", **blobs(60, 6, 3))
    (_, cats), (_, dogs), (_, others) = classes(served, "pets")
    one = tab(served)
    page = one.open("/models/pets/settings")
    card = page.get_by_role("region", name="Classes")
    name = card.get_by_label("A new class")

    name.fill("dog")
    card.get_by_role("button", name="Add the class").click()
    card.get_by_role("alert").get_by_text("there is a class 'dog' already").wait_for()
    name.fill("otter")
    card.get_by_role("button", name="Add the class").click()
    card.get_by_role("listitem", name="Class otter").get_by_text("not in latest").wait_for()

    rename(page, "a/b", "fox")
    page.get_by_text("a/b renamed to fox.").wait_for()
    card.get_by_role("button", name="Merge … dog").click()
    page.get_by_role("combobox", name="Into").select_option("cat")
    page.get_by_role("button", name="Merge the classes").click()
    page.get_by_text("dog merged into cat.").wait_for()
    assert classes(served, "pets") == [("cat", cats + dogs), ("fox", others), ("otter", 0)]

    card.get_by_role("button", name="Remove … fox").click()
    page.get_by_role("button", name="Remove the class").click()
    page.get_by_role("dialog").get_by_role("alert").wait_for()
    page.get_by_label("Keep its samples").check()
    page.get_by_role("button", name="Remove the class").click()
    page.get_by_text("Class fox removed.").wait_for()
    assert classes(served, "pets") == [("cat", cats + dogs), ("otter", 0)]
    assert served.http.get("/v1/models/pets").json()["samples"]["unlabelled"] == others
    one.forgive("409")


def rename(page: Any, old: str, new: str) -> None:
    """Without the mouse: the field has the focus, and Enter sends it."""
    page.get_by_role("button", name=f"Rename … {old}").press("Enter")
    page.get_by_role("dialog").get_by_label("Name").wait_for()
    page.keyboard.press("ControlOrMeta+A")
    page.keyboard.type(new)
    page.keyboard.press("Enter")


def test_classes_without_names_get_some(tab: Callable[..., Tab], served: Served) -> None:
    served.register("nameless", mlp(4, 3))
    one = tab(served)
    page = one.open("/models/nameless/settings")
    card = page.get_by_role("region", name="Classes")

    card.get_by_label("Names in the order").fill("a, b")
    card.get_by_role("button", name="Save").click()
    card.locator("[data-key=classes] .problem").wait_for()
    card.get_by_label("Names in the order").fill("a, b, c")
    card.get_by_role("button", name="Save").click()

    card.get_by_role("button", name="Rename … c").wait_for()
    assert served.http.get("/v1/models/nameless").json()["target"]["classes"] == ["a", "b", "c"]
    one.forgive("422")
