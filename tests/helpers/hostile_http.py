"""Hostile requests: what a client may say before its body, bodies that nearly fit a schema; and a
client that takes next to nothing of an answer.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any
from urllib.parse import quote, quote_from_bytes, urlsplit

from hostile import as_body, changed, flip, json_value, odd_text, one_of, raw, text

Schema = dict[str, Any]
Operation = tuple[str, str, Schema]

LONG = "9" * 5000
METHODS = ["GET"] * 8 + ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]
METHODS += ["get", "G\0T", "", "X" * 5000]
PATHS = ["/v1/models", "/v1/models/still", "/v1/models/still/latest/model.onnx", "/v1/events"]
PATHS += ["/v1/models/still/versions/1/model.onnx", "/healthz", "/docs", "/dashboard", "/metrics"]
PATHS += ["/v1/device/input?idle_seconds=3", "/v1/models/still/samples", "/v1/models/still/jobs"]
PATHS += [
    "/v2/models/still/infer",
    "*",
    "//",
    "/../../etc/passwd",
    "/%00",
    "/%ff%fe",
    "/dashboard/%2e",
]
PATHS += ["http://", "http://[::1", "http://localhost@evil/", "//evil/v1/models", "", "/" + LONG]
VERSIONS = ["HTTP/1.1"] * 9 + ["HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/9", "", "http/1.1"]
RANGES = [
    f"bytes={LONG}-",
    f"bytes=-{LONG}",
    "bytes=0-9",
    "bytes=9-0",
    "bytes=-0",
    "bytes=",
    "bytes",
]
RANGES += [
    "bytes=0-1,2-3",
    "bytes=" + "0-1," * 900,
    "lines=0-3",
    "bytes=a-b",
    "bytes=\u0661-\u0662",
    "bytes=--1",
]
VALUES = {
    "Range": RANGES,
    "If-Range": ['"x"', "W/", LONG, "Wed, 21 Oct 2015 07:28:00 GMT"],
    "If-None-Match": ["*", '"x"', 'W/"x"', "," * 900, LONG],
    "If-Modified-Since": ["Wed, 21 Oct 2015 07:28:00 GMT", "now", "Wed, 99 Xxx 99999 99:99:99 GMT"],
    "Origin": ["null", "http://evil.example", "http://", LONG],
    "Sec-Fetch-Site": ["cross-site", "none", "same-origin"],
    "Host": ["localhost", "evil.example", "", "127.0.0.1:0", "[::1", ":", "a,b"],
    "Authorization": ["Bearer", "Bearer  ", "Basic eDp5", "bearer \xff", LONG],
    "Content-Length": ["0", "5", "-1", "+5", "5, 5", "5, 6", "0x5", LONG, "", "1_0", "\u0665"],
    "Transfer-Encoding": [
        "chunked",
        "Chunked",
        "gzip, chunked",
        "identity",
        "chunked, chunked",
        "",
    ],
    "Content-Type": ["application/json", "multipart/form-data", "text/csv; charset=zz", "/", LONG],
    "Content-Encoding": ["gzip", "identity", "zz"],
    "Expect": ["100-continue", "200-ok"],
    "Connection": ["keep-alive", "Upgrade", "close, close", "Host"],
    "Upgrade": ["websocket", "h2c"],
    "HTTP2-Settings": ["AAMAAABkAARAAAAAAAIAAAAA"],
    "X-Forwarded-For": ["[::1", "1.2.3.4:99999", "a, b", ",", "127.0.0.1", LONG],
    "X-Forwarded-Proto": ["https", "zz", ""],
    "Last-Event-ID": ["0", "-1", LONG, "x", "1.5"],
    "Accept": ["text/html", "*/*;q=zz", "text/event-stream", LONG],
    "Accept-Encoding": ["gzip;q=zz", "identity;q=0, *;q=0"],
    "Inference-Header-Content-Length": ["0", "-1", LONG, "x", "5"],
    "Cookie": ["a=b; a=b", LONG],
}
NAMES = list(VALUES)
FRAMING = ("\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n ", "\0\r\n")


def head(r: Random, host: str, token: str) -> bytes:
    """A request's lines and a body that may be of another length."""
    path = r.choice(PATHS)
    target = f"http://{host}{path}" if r.random() < 0.1 else path
    lines = [f"{r.choice(METHODS)} {target} {r.choice(VERSIONS)}"]
    lines += [f"Host: {host}"] * r.choice((0, 1, 1, 1, 1, 1, 1, 2))
    lines += [f"Authorization: Bearer {token}"] * r.choice((0, 1, 1, 1, 1, 2))
    lines += [_header(r) for _ in range(r.randint(0, 4))]
    lines.append("Connection: close")
    body = r.choice((b"", b"", b"{}", b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n", raw(r)))
    if flip(r):
        lines.append(f"Content-Length: {len(body)}")
    end = "\r\n" if r.random() < 0.9 else r.choice(FRAMING)
    return (end.join(lines) + "\r\n\r\n").encode("utf-8", "surrogatepass") + body


def _header(r: Random) -> str:
    name = r.choice(NAMES)
    value = r.choice(VALUES[name]) if r.random() < 0.8 else one_of(text, odd_text)(r)
    return f"{name if r.random() < 0.95 else text(r)}:{value}"


@cache
def operations() -> list[Operation]:
    """Method, path and description of every route, and every schema resolved."""
    said = subprocess.run(
        [sys.executable, "-m", "api.description"], stdout=subprocess.PIPE, check=True
    ).stdout
    description = json.loads(said)
    schemas = description["components"]["schemas"]
    return [
        (method.upper(), path, {**operation, "schemas": schemas})
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    ]


WORDS = ("a", "cat", "0.1", "2026-11-22T00:00:00Z", "* * * * *", "last:2", "train")
WAYS = ("anyOf", "oneOf", "allOf")


def fitting(r: Random, schema: Schema, schemas: Schema) -> Any:
    """A value that the schema allows, more or less."""
    if "$ref" in schema:
        return fitting(r, schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if several := next((schema[way] for way in WAYS if way in schema), None):
        return fitting(r, r.choice(several), schemas)
    if "enum" in schema or "const" in schema:
        return r.choice(schema.get("enum") or [schema["const"]])
    kind = schema.get("type")
    make = FITTING.get(kind[0] if isinstance(kind, list) else kind)
    return json_value(r) if make is None else make(r, schema, schemas)


def _object(r: Random, schema: Schema, schemas: Schema) -> Any:
    required = schema.get("required", ())
    parts = schema.get("properties", {}).items()
    chosen = [(name, part) for name, part in parts if name in required or flip(r)]
    return {name: fitting(r, part, schemas) for name, part in chosen}


def _array(r: Random, schema: Schema, schemas: Schema) -> Any:
    return [fitting(r, schema.get("items", {}), schemas) for _ in range(r.randint(0, 3))]


def _integer(r: Random, schema: Schema, _: Schema) -> Any:
    return r.randint(schema.get("minimum", 0), schema.get("maximum", 9))


FITTING: dict[str | None, Callable[[Random, Schema, Schema], Any]] = {
    "object": _object,
    "array": _array,
    "integer": _integer,
    "number": lambda r, *_: r.choice((0, 1, 0.5, r.uniform(0, 100))),
    "boolean": lambda r, *_: flip(r),
    "string": lambda r, *_: text(r) if flip(r) else r.choice(WORDS),
    "null": lambda *_: None,
}


def body_of(r: Random, operation: Schema) -> bytes:
    """JSON for a route: fitting, fitting but for one part, or anything."""
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    value = fitting(r, schema, operation["schemas"])
    kind = r.randrange(10)
    if kind == 0:
        return raw(r)
    if kind == 1:
        return as_body(json_value(r))
    return as_body(value if kind == 2 else changed(r, value))


SLOW = frozenset({"wait", "variant"})
"""Parameters that hold an answer back, for a version or a child process."""


def target_of(r: Random, path: str, operation: Schema, known: dict[str, str]) -> str:
    """The path with its parts filled in, mostly by what is there, and a query."""
    asked = []
    for parameter in operation.get("parameters", []):
        name = parameter["name"]
        if parameter["in"] == "path":
            good = known.get(name, "1")
            path = path.replace(f"{{{name}}}", good if r.random() < 0.8 else quoted(r))
        elif parameter["in"] == "query" and name not in SLOW and flip(r):
            value = fitting(r, parameter["schema"], operation["schemas"])
            said = quote(str(value), errors="replace") if flip(r) else quoted(r)
            asked += [f"{name}={said}"] * r.choice((1, 1, 1, 2))
    if r.random() < 0.1:
        asked.append(f"{quoted(r)}={quoted(r)}")
    return path + ("?" + "&".join(asked) if asked else "")


def quoted(r: Random) -> str:
    """Part of a target: text, odd text or any bytes, percent-encoded."""
    kind = r.randrange(3)
    if kind == 0:
        return quote_from_bytes(raw(r, 12), safe="")
    return quote(one_of(text, odd_text)(r).encode("utf-8", "surrogatepass"), safe="")


BOUNDARIES = ["b", "b" * 50_000, "", '"b"', '"b', "b\xe9", "-", "b; charset=utf-7", "b b"]
PART_HEADERS = [
    'Content-Disposition: form-data; name="spec"',
    'Content-Disposition: form-data; name="model"; filename="m.onnx"',
    'Content-Disposition: form-data; name="artifacts"; filename="m.zip"',
    'Content-Disposition: form-data; name="file"; filename="a.png"',
    'Content-Disposition: form-data; name="samples"',
    "Content-Disposition: form-data; filename*=utf-8''%ff%00",
    'Content-Disposition: form-data; name="file"; filename="../../a.png"',
    "Content-Disposition: attachment",
    "Content-Disposition: form-data; name=" + "n" * 9000,
    "Content-Type: image/png",
    "Content-Type: application/json",
    "Content-Transfer-Encoding: base64",
    "X: " + "x" * 9000,
    ":",
]
TYPES = [
    "application/json",
    "application/x-npz",
    "text/csv",
    "image/png",
    "image/jpeg",
    "image/webp",
]
TYPES += ["application/zip", "application/octet-stream", "text/csv; charset=utf-16", "zz", ""]


def form(r: Random, boundary: str) -> bytes:
    """A multipart body, a tenth of whose lines are missing or odd."""
    mark = boundary.strip('"').encode("latin-1")
    pieces = []
    for _ in range(r.randint(0, 3)):
        lines = [line.encode() for line in r.sample(PART_HEADERS, r.randint(0, 3))]
        content = r.choice(
            (raw(r), as_body(json_value(r)), b"", as_body({"name": "a b", "loss": "mse"}))
        )
        pieces += [b"--" + mark, *lines, b"", content]
    pieces += [b"--" + mark + b"--", b""]
    return b"\r\n".join(piece for piece in pieces if r.random() < 0.95)


def upload(r: Random) -> tuple[str, bytes]:
    """A content type and a body."""
    if flip(r):
        boundary = r.choice(BOUNDARIES)
        said = f"; boundary={boundary}" if r.random() < 0.9 else ""
        return "multipart/form-data" + said, form(r, boundary)
    return r.choice(TYPES), r.choice((raw(r), as_body(json_value(r))))


def slow_reader(url: str, said: bytes) -> socket.socket:
    """A connection on which this was said, with room for few bytes of the answer.

    By default the system takes up to 32 MiB of it, whether anybody reads it or not.
    """
    place = urlsplit(url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((place.hostname, place.port))
    connection.sendall(said)
    return connection
