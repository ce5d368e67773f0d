"""A source that answers with whatever it likes: each answer is refused by name, or is of no use."""

from __future__ import annotations

import random

import pytest
from vendors import MODEL, seen, signed

from service.follow.errors import ALL
from service.follow.messages import Unchanged

CODES = {each.code for each in ALL}
PLACES = [
    *("http://[", "http://[::1", "https://localhost:99999/", "//", "http:///x", "\\\\evil"),
    *("https://\u00e4\u00f6.example/", "javascript:1", "file:///etc/passwd", "data:,x", "\x7f"),
    *("https://user:pass@evil.example/x", "https://" + "a" * 3000, "?", "#", ""),
]
CHALLENGES = [
    *("", "Basic", "Bearer", 'Bearer realm=""', 'Bearer realm="["', 'Bearer realm="/token"'),
    *('Bearer realm="file:///etc/passwd"', 'Bearer realm="https://evil.example/",service="["'),
    *("Negotiate", "Digest realm=x", 'Bearer realm="https://localhost:x/"', "\u00e4"),
]
DEEP = b"[" * 100_000
MANIFESTS = [
    *(
        b"",
        b"null",
        b"[]",
        b"{}",
        b"3",
        DEEP,
        b'{"layers":' + DEEP,
        b"\xff\xfe",
        b'{"layers":null}',
    ),
    *(b'{"layers":[{"digest":"sha256:x","size":1}]}', b'{"layers":[{"digest":3,"size":1}]}'),
    b'{"layers":[{"digest":"../../../../token","size":1,"annotations":'
    b'{"org.opencontainers.image.title":"x.sig"}}]}',
    b'{"layers":[{"digest":"sha256:%s","size":1,"annotations":' % (b"0" * 64)
    + b'{"org.opencontainers.image.title":"x.sig"}}]}',
]


def raw(name: str, value: str, status: int = 200):
    """An answer with a header that no honest server sends."""

    def say(handler, content):
        handler.send_response(status)
        handler.send_header(name, value.encode("utf-8").decode("latin-1"))
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(content)

    return say


@pytest.mark.parametrize("target", PLACES)
def test_a_redirect_to_what_is_no_address_is_refused(device, vendor, website, target):
    source = website.publish(vendor, MODEL)
    website.lies["/digits.onnx"] = raw("Location", target, 302)
    assert device.refusal(source)[0] in CODES


@pytest.mark.parametrize("challenge", CHALLENGES)
def test_a_login_that_nobody_understands_is_refused(device, vendor, website, challenge):
    source = website.publish(vendor, MODEL)
    website.lies["/digits.onnx.sig"] = raw("WWW-Authenticate", challenge, 401)
    assert device.refusal(source)[0] in CODES


@pytest.mark.parametrize("manifest", MANIFESTS, ids=range(len(MANIFESTS)))
def test_a_manifest_that_is_none_is_refused(device, website, manifest):
    website.files["/v2/team/digits/manifests/stable"] = manifest
    source = f"oci://{website.url.removeprefix('http://')}/team/digits:stable"
    assert device.refusal(source)[0] in CODES
    assert all(path.startswith("/v2/team/digits/") for path in website.paths())


@pytest.mark.parametrize("tag", ["\u00e4", "x" * 5000, "W/", '"', ""])
def test_an_odd_etag_does_no_harm(device, vendor, website, tag):
    source = website.publish(vendor, MODEL)
    website.lies["/digits.onnx.sig"] = raw("ETag", tag)
    mark = device.ask(source)[0].mark
    assert device.ask(source, mark=mark) == [Unchanged()]


@pytest.mark.parametrize(
    "part", ["", "bytes", "bytes x-y/z", "bytes 99999999999999999999-1/*", "a"]
)
def test_an_odd_range_is_refused(device, vendor, website, part):
    source = website.publish(vendor, MODEL)
    (device.folder / signed(MODEL).sha256).write_bytes(MODEL[:1000])
    website.lies["/digits.onnx"] = raw("Content-Range", part, 206)
    assert device.refusal(source)[0] == "content_mismatch"


@pytest.mark.parametrize("seed", range(20))
def test_a_statement_with_any_byte_changed_is_refused(device, vendor, website, seed):
    drawn = random.Random(seed)
    source = website.publish(vendor, MODEL)
    envelope = bytearray(website.files["/digits.onnx.sig"])
    begin = envelope.index(b'"payload":"') + len(b'"payload":"')
    at = begin + drawn.randrange(200)
    envelope[at] = ord("A") if envelope[at] != ord("A") else ord("B")
    website.files["/digits.onnx.sig"] = bytes(envelope)
    assert device.refusal(source, offered=seen(MODEL, 1))[0] == "signature_refused"
