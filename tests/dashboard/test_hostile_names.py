"""Names that would be programs if they were markup, in every field that takes a text of others."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import onnx
import pytest
from browser import Tab
from own_losses import renamed
from support import Served, mlp, wait_until

HOSTILE = "\"'><img src=x onerror=hurt=1><svg onload=hurt=1>"
"""Ends an attribute, then an element, and begins others that run at once."""
LINK = "javascript:hurt=1"
SHOWN = {
    "": [],
    "/models": [],
    "/models/hostile": ["label", "note"],
    "/models/hostile/samples": ["label"],
    "/models/hostile/try": ["label"],
    "/models/hostile/compare": ["label"],
    "/models/hostile/settings": ["label", "logits", "trigger"],
    "/jobs": [],
    "/jobs/1": ["trigger"],
    "/device": [],
    "/system": ["token"],
    "/system/events": ["trigger"],
    "/system/audit": [],
}
"""Each page, and some of what it must show so that the test is one of it."""
HURT = """() => [
  typeof hurt,
  ...[...document.querySelectorAll("img[src='x'], [onerror], [onload], [href^='javascript:' i]")]
    .map((element) => element.outerHTML),
]"""


def hostile_model() -> bytes:
    """Its tensors, weights and nodes have such names."""
    model = onnx.load_from_string(mlp(4, 8, 3))
    for number, node in enumerate(model.graph.node):
        node.name = f"{HOSTILE} node {number}"
    tensors = [*model.graph.initializer, *model.graph.output]
    names = {tensor.name: f"{HOSTILE} {tensor.name}" for tensor in tensors}
    for initializer in model.graph.initializer:
        initializer.name = names[initializer.name]
    model.metadata_props.add(key="classes", value=f'["{LINK}", "<b>", "c"]')
    model.producer_name = model.graph.name = HOSTILE
    return renamed(model, names)


@pytest.fixture(scope="module")
def hostile(served: Served) -> Served:
    """A model that was trained by a trigger, tokens, and entries of the audit log."""
    classes = [f"{HOSTILE} before", LINK, "<script>hurt=1</script>"]
    served.register("hostile", hostile_model(), classes=classes)
    send, of_model = served.http, "/v1/models/hostile"
    rule = {"new_samples": 1, "name": f"{HOSTILE} trigger"}
    send.post(f"{of_model}/triggers", json=rule).raise_for_status()
    generator = np.random.default_rng(0)
    samples = [
        {
            "inputs": {"x": [at % 3 * 4.0, *generator.standard_normal(3)]},
            "label": classes[at % 3],
            "key": f"{HOSTILE} key {at}",
        }
        for at in range(60)
    ]
    send.post(f"{of_model}/samples", json={"samples": samples}).raise_for_status()
    features = {"features": [f"{HOSTILE} feature {at}" for at in range(4)]}
    consent = {"federation": {"superlink": f"{HOSTILE} superlink", "allowed": True}}
    send.patch(of_model, json=features | consent).raise_for_status()
    job = wait_until(lambda: send.get("/v1/jobs").json()["items"], "the trigger")[0]
    send.post(f"/v1/jobs/{job['id']}/resume", json={"ignore_policy": True}).raise_for_status()
    assert served.wait_for_job(job["id"])["state"] == "succeeded"
    old = quote(classes[0], safe="")
    send.patch(f"{of_model}/classes/{old}", json={"name": f"{HOSTILE} label"}).raise_for_status()
    for kept in send.get("/v1/models/hostile/checkpoints").json()["items"]:
        note = {"note": f"{HOSTILE} note", "pinned": True}
        send.patch(f"/v1/checkpoints/{kept['id']}", json=note).raise_for_status()
    token = {"name": f"{HOSTILE} token", "scopes": ["models:read"]}
    send.post("/v1/tokens", json=token).raise_for_status()
    return served


@pytest.mark.parametrize("place", SHOWN)
def test_what_others_have_named_is_text_on_every_page(
    tab: Callable[..., Tab], hostile: Served, place: str
) -> None:
    page = tab(hostile).open(place)
    for name in SHOWN[place]:
        page.get_by_text(f"{HOSTILE} {name}").first.wait_for(state="attached")
    assert page.evaluate(HURT) == ["undefined"]
    opening = page.locator("main button:enabled").filter(has_text="…")
    unfold(page)
    for number in range(opening.count()):
        unfold(page)
        opening.nth(number).click()
        page.get_by_role("dialog").wait_for()
        assert page.evaluate(HURT) == ["undefined"]
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
    assert page.evaluate(HURT) == ["undefined"]


def unfold(page: Any) -> None:
    """Open all parts of the page: some come late, and a second click would close one."""
    folded = page.locator("main details:not([open]) > summary")
    while folded.count():
        folded.first.click()


def test_what_a_file_holds_and_is_called_is_text(
    tab: Callable[..., Tab], hostile: Served, tmp_path: Path
) -> None:
    (tmp_path / f"{HOSTILE}.onnx").write_bytes(hostile_model())
    (tmp_path / f"{HOSTILE}.csv").write_text(f"a,{HOSTILE},c\n1,2,3\n")
    one = tab(hostile)
    page = one.open("/add")
    page.get_by_label("Choose a file").set_input_files(tmp_path / f"{HOSTILE}.onnx")
    page.get_by_text(HOSTILE).first.wait_for(state="attached")
    page.get_by_role("region", name="File contents").wait_for()
    assert page.evaluate(HURT) == ["undefined"]

    page.goto(f"{hostile.url}/dashboard/models/hostile/samples")
    page.locator("input[type=file]").first.set_input_files(tmp_path / f"{HOSTILE}.csv")
    page.get_by_text(HOSTILE).first.wait_for(state="attached")
    assert page.evaluate(HURT) == ["undefined"]
    one.forgive("422")


def test_answers_are_never_taken_for_pages(chromium: Any, hostile: Served) -> None:
    """Opened as addresses, by a browser that sends the token."""
    name = quote(HOSTILE, safe="")
    paths = ["/v1/models/hostile", "/v1/models/hostile/samples", "/v1/jobs/1/log", "/v1/audit"]
    paths += [f"/v1/models/{name}", f"/{name}?{name}={name}", "/metrics", "/docs"]
    headers = {"Authorization": f"Bearer {hostile.token}"}
    with closing(chromium.new_context(extra_http_headers=headers)) as context:
        page = context.new_page()
        for path in paths:
            page.goto(hostile.url + path)
            assert page.evaluate(HURT) == ["undefined"], path
