"""Routes that change something refuse unknown query parameters and oversized JSON."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from math import prod
from typing import Any, get_args, get_origin

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.types import Message

from api.access.scopes import ScopedRoute
from api.bodies.uploads import media_type, read_small, require_media_type, require_plain
from api.dependencies import daemon_of, known_model
from api.protocol import PRINCIPAL, READS
from service.errors import InvalidInput
from service.preprocess.masks.labels import MOST_BYTES
from service.samples.ingest.json_value import read_body
from service.samples.ingest.labels import MaskReader, label_reader
from storage.database.codec import dump
from storage.errors import NotFound, Problem, pointer
from storage.records.models import Model

MAX_JSON_BYTES, ANYBODYS_JSON_BYTES, VALUE_BYTES = 2**20, 2**14, 32
"""Of a body; of one that needs no token; and besides of each value of a label."""
JSON, MASK_TYPE = "application/json", "image/png"


class Route(ScopedRoute):
    """Refuses repeated parameters, of which only the last value would count, and except in reads
    unknown ones: a mistyped one of DELETE deletes too much.
    """

    too_large = "the JSON of this route has at most {max_bytes} bytes; send less"

    async def max_json_bytes(self, request: Request) -> int:
        """The limit of a body that FastAPI parses; routes that read theirs have other limits."""
        return ANYBODYS_JSON_BYTES if request.scope[PRINCIPAL] is None else MAX_JSON_BYTES

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, after the checks."""
        handle = super().get_route_handler()
        reads = not set(self.methods or ()) - set(READS)

        async def checked(request: Request) -> Response:
            _check_query(request, self.dependant, reads=reads)
            if self.body_field is not None:
                request = await self._read(request)
            return await handle(request)

        return checked

    async def _read(self, request: Request) -> Request:
        """The request with its body in memory. Raises TooLarge and UnsupportedMediaType.

        It is read here because FastAPI reports any failure to read a body as bad JSON.
        """
        require_plain(request)
        max_bytes = await self.max_json_bytes(request)
        return _with_body(
            request, await read_small(request, max_bytes=max_bytes, refusal=self.too_large)
        )


class Digits(StringConvertor):
    """An id in a path that has named siblings: in `samples/stats`, `stats` is not an id. The
    route's own type converts it to a number.
    """

    regex = "[0-9]+"


class ClassName(StringConvertor):
    """A class in a path: names may contain slashes, but `…/merge` belongs to another route."""

    regex = "(?!.*/merge$).+"


register_url_convertor("digits", Digits())
register_url_convertor("class_name", ClassName())


class LabelRoute(Route):
    """Takes a label, which may be a tensor, as in an upload, or a mask, as JSON or as it is."""

    too_large = "a label's JSON has at most {max_bytes} bytes for this model"

    async def max_json_bytes(self, request: Request) -> int:
        """What the model's label may take, within the limit of samples."""
        model = await _model_of(request)
        if model is None:
            return MAX_JSON_BYTES
        label_bytes = VALUE_BYTES * prod(model.signature.target.shape)
        if isinstance(label_reader(model), MaskReader):
            label_bytes = max(label_bytes, 2 * MOST_BYTES)
        settings = (await daemon_of(request)).settings
        return min(MAX_JSON_BYTES + label_bytes, settings.max_json_bytes)

    async def _read(self, request: Request) -> Request:
        """With a mask as JSON says it, if the model's labels are masks."""
        read = await super()._read(request)
        if media_type(request).endswith("json"):
            return read
        model = await _model_of(request)
        if model is None or not isinstance(label_reader(model), MaskReader):
            return read
        require_media_type(request, JSON, MASK_TYPE)
        label = {"png": b64encode(await read.body()).decode()}
        headers = [pair for pair in request.scope["headers"] if pair[0] != b"content-type"]
        request.scope["headers"] = [*headers, (b"content-type", b"application/json")]
        return _with_body(request, dump({"label": label}).encode())


async def _model_of(request: Request) -> Model | None:
    """None if there is none, as the route says."""
    try:
        return await known_model(request.path_params["name"], await daemon_of(request))
    except NotFound:
        return None


class _JsonRequest(Request):
    async def json(self) -> Any:
        return read_body(await self.body())


def _with_body(request: Request, content: bytes) -> Request:
    left = [content]

    async def receive() -> Message:
        if not left:  # a route waits for its client to leave
            return await request.receive()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    return _JsonRequest(request.scope, receive)


def _check_query(request: Request, dependant: Dependant, *, reads: bool) -> None:
    """Raises InvalidInput for repeated parameters; unless the route reads, for unknown ones too."""
    if not request.scope["query_string"]:
        return
    known = dict(_query_types(dependant))
    there_are = f"there are {', '.join(sorted(known))}" if known else "this route takes none"
    problems = []
    for name, times in Counter(name for name, _ in request.query_params.multi_items()).items():
        place = pointer("query", name)
        if name not in known and not reads:
            problems.append(Problem(place, f"there is no such parameter; {there_are}"))
        elif times > 1 and name in known and not _takes_several(known[name]):
            problems.append(Problem(place, f"is given {times} times, and takes one value"))
    if problems:
        told = "the query is wrong" if reads else "the query is wrong; nothing was changed"
        raise InvalidInput(told, problems=problems)


def _takes_several(kind: object) -> bool:
    """Whether a type is of lists or tuples, or either is among its alternatives."""
    return any(get_origin(part) in (list, tuple) for part in (kind, *get_args(kind)))


def _query_types(dependant: Dependant) -> Iterator[tuple[str, object]]:
    yield from ((param.alias, param.field_info.annotation) for param in dependant.query_params)
    for below in dependant.dependencies:
        yield from _query_types(below)
