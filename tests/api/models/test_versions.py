"""Files of versions over HTTP: tags, ranges, digests, HEAD."""

from __future__ import annotations

import base64
import hashlib
from email.utils import parsedate_to_datetime

import httpx
import pytest
from support import Served, mlp

LARGE = (600, 700, 10)
"""An MLP of 1.7 MB: sent by the kernel, where the small one is sent from memory."""


@pytest.fixture(scope="module", params=[(4, 3), LARGE], ids=["small", "large"])
def url(served: Served, request: pytest.FixtureRequest) -> str:
    name = f"versions-{len(request.param)}"
    served.register(name, mlp(*request.param))
    return f"/v1/models/{name}/latest/model.onnx"


@pytest.fixture
def whole(served: Served, url: str) -> httpx.Response:
    return served.http.get(url)


def digest_of(content: bytes) -> str:
    return f"sha-256=:{base64.b64encode(hashlib.sha256(content).digest()).decode()}:"


def test_a_model_comes_with_its_hash_as_strong_tag_and_digest(whole: httpx.Response) -> None:
    assert whole.status_code == 200
    assert whole.headers["etag"] == f'"{hashlib.sha256(whole.content).hexdigest()}"'
    assert whole.headers["content-digest"] == digest_of(whole.content)
    assert whole.headers["content-length"] == str(len(whole.content))
    assert whole.headers["content-type"] == "application/onnx"
    assert whole.headers["accept-ranges"] == "bytes"
    assert parsedate_to_datetime(whole.headers["last-modified"]).tzinfo is not None


def test_latest_is_asked_for_again_and_a_version_never(
    served: Served, url: str, whole: httpx.Response
) -> None:
    version = served.http.get(url.replace("latest", "versions/1"))

    assert "no-cache" in whole.headers["cache-control"]
    assert "immutable" in version.headers["cache-control"]
    assert version.content == whole.content


@pytest.mark.parametrize("given", ["{tag}", "W/{tag}", '"other", {tag}', "*"])
def test_who_has_the_model_gets_304_without_a_body(
    served: Served, url: str, whole: httpx.Response, given: str
) -> None:
    tag = whole.headers["etag"]

    for method in ("GET", "HEAD"):
        answer = served.http.request(
            method, url, headers={"If-None-Match": given.format(tag=tag), "Range": "bytes=0-1"}
        )
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == tag


def test_who_has_another_model_gets_this_one(
    served: Served, url: str, whole: httpx.Response
) -> None:
    answer = served.http.get(url, headers={"If-None-Match": f'"{"0" * 64}"'})

    assert answer.content == whole.content


def test_head_tells_all_but_the_content(served: Served, url: str, whole: httpx.Response) -> None:
    answer = served.http.head(url)

    told = {"etag", "content-length", "content-type", "last-modified", "repr-digest"}
    assert (answer.status_code, answer.content) == (200, b"")
    assert {name: answer.headers[name] for name in told} == {
        name: whole.headers[name] for name in told
    }
    # RFC 9530, appendix B.2: a digest of the content would be that of nothing.
    assert "content-digest" not in answer.headers


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("bytes=0-9", slice(0, 10)),
        ("bytes=10-", slice(10, None)),
        ("bytes=-10", slice(-10, None)),
        ("BYTES = 5-5", slice(5, 6)),
        ("bytes=1-999999999", slice(1, None)),
        ("bytes=-999999999", slice(0, None)),
    ],
)
def test_a_range_is_a_part(
    served: Served, url: str, whole: httpx.Response, asked: str, wanted: slice
) -> None:
    answer = served.http.get(url, headers={"Range": asked})

    part = whole.content[wanted]
    size = len(whole.content)
    first = wanted.start % size
    assert answer.status_code == 206
    assert answer.content == part
    assert answer.headers["content-range"] == f"bytes {first}-{first + len(part) - 1}/{size}"
    assert answer.headers["repr-digest"] == digest_of(whole.content)
    assert "content-digest" not in answer.headers


@pytest.mark.parametrize(
    "asked", ["bytes=0-1,4-5", "bytes=5-4", "bytes=-", "lines=0-1", "bytes=a-b"]
)
def test_a_range_that_is_not_one_is_ignored(
    served: Served, url: str, whole: httpx.Response, asked: str
) -> None:
    answer = served.http.get(url, headers={"Range": asked})

    assert (answer.status_code, answer.content) == (200, whole.content)


@pytest.mark.parametrize("asked", ["bytes=99999999-", "bytes=99999999-99999999", "bytes=-0"])
def test_a_range_past_the_end_is_416(
    served: Served, url: str, whole: httpx.Response, asked: str
) -> None:
    answer = served.http.get(url, headers={"Range": asked})

    assert answer.status_code == 416
    assert answer.headers["content-range"] == f"bytes */{len(whole.content)}"
    assert answer.json()["code"] == "range_not_satisfiable"


def test_a_download_goes_on_only_if_the_model_is_still_the_same(
    served: Served, url: str, whole: httpx.Response
) -> None:
    asked = {"Range": "bytes=10-"}
    same = [whole.headers["etag"], whole.headers["last-modified"]]
    other = ['"other"', f"W/{whole.headers['etag']}", "Fri, 01 Jan 2021 00:00:00 GMT"]

    for given in same:
        answer = served.http.get(url, headers={**asked, "If-Range": given})
        assert (answer.status_code, answer.content) == (206, whole.content[10:]), given
    for given in other:
        answer = served.http.get(url, headers={**asked, "If-Range": given})
        assert (answer.status_code, answer.content) == (200, whole.content), given


def test_many_files_follow_each_other_on_one_connection(
    served: Served, url: str, whole: httpx.Response
) -> None:
    for _ in range(5):
        assert served.http.get(url).content == whole.content
        assert served.http.get(url, headers={"Range": "bytes=-7"}).content == whole.content[-7:]


def test_what_latest_names_has_a_tag_of_its_own(served: Served, url: str) -> None:
    shown = served.http.get(url.removesuffix("/model.onnx"))
    again = {"If-None-Match": shown.headers["etag"]}

    assert shown.json()["version"] == 1
    assert shown.headers["etag"] == f'"{hashlib.sha256(shown.content).hexdigest()}"'
    assert served.http.get(url.removesuffix("/model.onnx"), headers=again).status_code == 304


@pytest.mark.parametrize(
    "path",
    [
        "nobody/latest",
        "nobody/latest/model.onnx",
        "nobody/versions/1/model.onnx",
        "versions-2/versions/9/model.onnx",
    ],
)
def test_what_does_not_exist_is_404(served: Served, url: str, path: str) -> None:
    answer = served.http.get(f"/v1/models/{path}")

    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


def test_a_deleted_model_is_gone_and_a_new_one_of_its_name_is_new(served: Served) -> None:
    url = "/v1/models/versions-again/latest/model.onnx"
    served.register("versions-again", mlp(4, 3, seed=1))
    first = served.http.get(url)
    served.http.delete("/v1/models/versions-again")
    gone = served.http.get(url, headers={"If-None-Match": first.headers["etag"]})
    served.register("versions-again", mlp(4, 3, seed=2))

    assert gone.status_code == 404
    assert served.http.get(url).headers["etag"] != first.headers["etag"]
