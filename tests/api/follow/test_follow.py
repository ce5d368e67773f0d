"""Following a source over HTTP: what is set, shown, refused and kept secret."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support import Served, mlp, wait_until
from vendors import MODEL, Vendor, Website

PATH = "/v1/models/digits/follow"


@pytest.fixture(scope="module")
def of_digits(served: Served) -> Served:
    served.register("digits", mlp(4, 8, 3))
    return served


@pytest.fixture
def site() -> Iterator[Website]:
    with Website() as site:
        yield site


def put(served: Served, **body: Any) -> Any:
    return served.http.put(PATH, json=body)


def when(served: Served, what: str) -> Any:
    """The followed source once a field is set."""
    return wait_until(
        lambda: (found := served.http.get(PATH).json())[what] and not found["asking"] and found,
        f"{what} of the followed source",
    )


def test_without_a_pinned_key_nothing_is_followed(of_digits, site):
    answer = put(of_digits, source=f"{site.url}/digits.onnx", keys=[])
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/keys"
    assert "honed sign --make-key" in error["detail"]
    assert of_digits.http.get(PATH).status_code == 404


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("ftp://example.com/x.onnx", "oci://registry/repository:tag or https://"),
        ("http://example.com/x.onnx", "plain http is for this device itself"),
        ("http://localhost.example.com/x.onnx", "plain http is for this device itself"),
        ("https://user:secret@example.com/x.onnx", "HONED_REGISTRY_CREDENTIALS"),
        ("https://example.com/x.onnx?token=secret", "HONED_REGISTRY_CREDENTIALS"),
        ("https://example.com/", "name the file"),
        ("https://example.com:99999/x.onnx", "ort"),
        ("https://exa mple.com/x.onnx", "without spaces"),
        ("oci://example.com/team/digits", "registry, repository and tag"),
        ("oci://example.com/Team/digits:stable", "registry, repository and tag"),
        ("oci://u:p@example.com/team/digits:stable", "registry, repository and tag"),
        ("oci://example.com/team/../digits:stable", "registry, repository and tag"),
    ],
)
def test_a_source_that_is_none_is_refused_with_what_would_be_right(of_digits, source, said):
    answer = put(of_digits, source=source, keys=[Vendor().pem])
    assert answer.status_code == 422, answer.text
    (error,) = answer.json()["errors"]
    assert error["pointer"] == "/source"
    assert said in error["detail"]


def test_keys_and_hosts_that_are_none_are_all_told(of_digits):
    private = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n"
    other = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQ==\n-----END PUBLIC KEY-----\n"
    body = {"source": "oci://r.example/a:b", "keys": [private, Vendor().pem, other, "key"]}
    answer = put(of_digits, **body, hosts=["cdn.example", "https://cdn.example", "a b"])
    told = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert set(told) == {"/keys/0", "/keys/2", "/keys/3", "/hosts/1", "/hosts/2"}
    assert "must not leave the vendor" in told["/keys/0"]
    assert "another kind" in told["/keys/2"]


def test_a_report_goes_to_a_web_server_or_nowhere(of_digits):
    body = {"source": "oci://r.example/a:b", "keys": [Vendor().pem]}
    for report in ("oci://r.example/a:b", "http://example.com/v1/metrics", "mailto:a@b"):
        (error,) = put(of_digits, **body, report=report).json()["errors"]
        assert error["pointer"] == "/report"


def test_numbers_have_bounds(of_digits):
    answer = put(of_digits, source="oci://r.example/a:b", keys=[], every_hours=0.01, percent=101)
    pointers = {error["pointer"] for error in answer.json()["errors"]}
    assert pointers == {"/every_hours", "/percent"}


def test_a_foreign_signature_is_shown_and_told_as_an_event(of_digits, site):
    source = site.publish(Vendor(), MODEL)
    vendor = Vendor()
    answer = put(of_digits, source=source, keys=[vendor.pem])
    assert answer.status_code == 200, answer.text
    assert answer.json()["keys"] == [vendor.pem]
    found = when(of_digits, "error")
    assert found["error"]["code"] == "signature_refused"
    assert found["offered"] is found["taken"] is found["in_share"] is None
    history = of_digits.http.get("/v1/events/history?type=follow.&model=digits").json()["items"]
    assert [each["type"] for each in history[:2]] == ["follow.refused", "follow.set"]
    assert history[0]["data"]["code"] == "signature_refused"


def test_a_device_that_has_no_share_is_told_so(of_digits, site):
    vendor = Vendor()
    source = site.publish(vendor, MODEL)
    put(of_digits, source=source, keys=[vendor.pem], percent=0)
    found = when(of_digits, "offered")
    assert (found["in_share"], found["taken"], found["downloaded_bytes"]) == (False, None, 0)
    assert found["offered"]["version"] == 2
    assert "/digits.onnx" not in site.paths()


def test_it_is_ended_once(of_digits, site):
    vendor = Vendor()
    put(of_digits, source=site.publish(vendor, MODEL), keys=[vendor.pem], percent=0)
    assert of_digits.http.delete(PATH).status_code == 204
    assert of_digits.http.delete(PATH).status_code == 404
    assert of_digits.http.get(PATH).status_code == 404


def test_only_who_may_change_models_sets_a_source(of_digits):
    made = of_digits.http.post(
        "/v1/tokens", json={"name": "app", "scopes": ["models:read", "train"]}
    )
    headers = {"Authorization": f"Bearer {made.json()['secret']}"}
    body = {"source": "oci://r.example/a:b", "keys": [Vendor().pem]}
    assert of_digits.http.put(PATH, json=body, headers=headers).status_code == 403


def test_credentials_are_sent_to_the_source_and_shown_nowhere(serve, site, tmp_path):
    credentials = tmp_path / "config.json"
    host = site.url.removeprefix("http://")
    auths = {host: {"auth": "YW5uYTpzM2NyZXQtb2YtYW5uYQ=="}}
    credentials.write_text(json.dumps({"auths": auths}))
    served = serve(registry_credentials=credentials, log_level="debug")
    served.register("digits", mlp(4, 8, 3))
    vendor = Vendor()
    source = site.publish(vendor, MODEL)

    def wants(handler, content):
        if handler.headers.get("Authorization", "").startswith("Basic "):
            handler.serve(content)
        else:
            handler.answer(401, b"", WWW_Authenticate='Basic realm="r"')

    site.lies = dict.fromkeys(site.files, wants)
    put(served, source=source, keys=[vendor.pem], percent=0)
    when(served, "offered")
    assert site.logins == [None, "Basic YW5uYTpzM2NyZXQtb2YtYW5uYQ=="]
    credentials.write_text("s3cret-of-anna")
    put(served, source=source, keys=[vendor.pem], percent=0)
    found = when(served, "error")
    assert (found["error"]["code"], "config.json" in found["error"]["detail"]) == (
        "source_refused",
        True,
    )
    for text in (json.dumps(found), served.said(), served.http.get("/v1/events/history").text):
        assert "s3cret" not in text
        assert "YW5uYTpz" not in text
