"""The source of a model's bases in the console: what it offers, and what the vendor learns."""

from __future__ import annotations

from collections.abc import Callable

from browser import Tab
from support import Served, mlp, wait_until
from vendors import Vendor, Website


def test_a_source_is_shown_changed_and_unfollowed(tab: Callable[..., Tab], served: Served) -> None:
    served.register("lenses", mlp(4, 8, 3))
    path = "/v1/models/lenses/follow"
    one = tab(served)
    with Website() as site:
        source = f"{site.url}/lenses.onnx"
        terms = {"source": source, "keys": [Vendor().pem], "every_hours": 12}
        page = one.open("/models/lenses/settings")
        card = page.get_by_role("region", name="Vendor\u2019s source")
        card.get_by_text("honed models follow").wait_for()
        assert served.http.put(path, json=terms).status_code == 200

        card.get_by_text(source).wait_for()
        card.get_by_text("What a report would say").click()
        card.get_by_text("Never a sample, a label or a parameter").wait_for()
        card.get_by_label("Send one report").fill("https://vendor.example/v1/metrics")
        card.get_by_role("button", name="Save").click()
        page.get_by_text("The source of lenses is saved, and asked now.").wait_for()
        known = served.http.get(path).json()
        assert (known["report"], known["every_hours"]) == ("https://vendor.example/v1/metrics", 12)
        card.get_by_label("Send one report").fill("")
        card.get_by_role("button", name="Save").click()
        wait_until(lambda: served.http.get(path).json()["report"] is None, "the report's end")

        card.get_by_role("button", name="Unfollow … the source").click()
        page.get_by_role("button", name="Unfollow the source").click()
        card.get_by_text("honed models follow").wait_for()
    assert served.http.get(path).status_code == 404
    one.forgive("404")  # what was shown is asked for once more
