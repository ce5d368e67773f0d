"""What every body is made of."""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints

T = TypeVar("T")


class Request(BaseModel):
    """A body that apps send: unknown fields are refused, since they are mistyped ones.

    A number is a number: neither "3" nor true stands for one.
    """

    model_config = ConfigDict(extra="forbid", strict=True)


class Page(BaseModel, Generic[T]):
    """One page of a list. next: the cursor of the following page, null on the last."""

    items: list[T]
    next: str | None


class FaultBody(BaseModel):
    """One place that is wrong (RFC 6901 JSON pointer), and what would be right."""

    pointer: str
    detail: str


class ProblemBody(BaseModel):
    """RFC 9457 problem document."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FaultBody] | None = None


class Health(BaseModel):
    """The daemon is alive, or ready."""

    status: Literal["ok"]
    version: str


Text = Annotated[str, StringConstraints(min_length=1, max_length=256)]
