"""The settings of a run: checked before the first round, and sent in part to devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

AVERAGING = ("fedavg", "fedprox", "fedadam")
"""Strategies that need only the weighted mean of all updates."""
TOKENIZER = "tokenizer-sha256"
MOST_ROUNDS = 2**13

Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Amount = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class SentTerms(BaseModel):
    """The settings that devices are sent, as in pyproject.toml, with _ for -."""

    model_config = ConfigDict(
        alias_generator=lambda name: name.replace("_", "-"),
        allow_inf_nan=False,
        extra="forbid",
        frozen=True,
        strict=True,
    )

    epochs: Count
    max_steps: Count
    learning_rate: Amount
    batch_size: Count
    proximal_mu: Amount
    deadline_seconds: Amount
    on_deadline: Literal["", "update", "none"]
    clip_norm: Amount
    noise_multiplier: Amount
    compression: Literal["none", "int8", "top_k"]
    share: Share
    seed: Count
    tokenizer_sha256: str


class Terms(SentTerms):
    """All settings."""

    model: str = Field(min_length=1)
    parameters: str
    trainable: str
    output: str = Field(min_length=1)
    strategy: Literal["fedavg", "fedprox", "fedadam", "fedmedian", "krum"]
    rounds: int = Field(ge=1, lt=MOST_ROUNDS)
    nodes: AtLeastOne
    fraction: float = Field(gt=0, le=1)
    round_timeout: float = Field(gt=0)
    deliver: Literal["end", "each-round", "never"]
    evaluate: bool
    server_learning_rate: Amount
    server_clip_norm: Amount
    malicious_nodes: Count
    max_samples: AtLeastOne
    secure_aggregation: bool

    def sent(self) -> dict[str, Any]:
        """The settings of a round that devices are sent; a 0 that means "not given" is left out."""
        values = self.model_dump(include=set(SentTerms.model_fields), by_alias=True)
        return {name: value for name, value in values.items() if value}

    def of_parameters(self) -> dict[str, Any]:
        """Of these, what devices are sent with parameters that they do not train."""
        return {name: value for name, value in self.sent().items() if name == TOKENIZER}


def read_terms(config: Mapping[str, Any]) -> Terms:
    """Raises ValueError that lists everything wrong."""
    try:
        terms = Terms.model_validate(dict(config))
    except ValidationError as error:
        problems = [
            f"{each['loc'][0]} is missing"
            if each["type"] in ("missing", "string_too_short")
            else f"{each['loc'][0]} is {each['input']!r}: {each['msg']}"
            for each in error.errors()
        ]
    else:
        problems = [*_wrong(terms)]
    if problems:
        raise ValueError("the run's settings are wrong: " + "; ".join(problems))
    return terms


def least_updates(strategy: str, malicious: int) -> int:
    """The number of updates that a round needs: Krum's guarantee is of 2f + 3 with f malicious
    ones. Source: Blanchard et al. (2017), proposition 1.
    """
    return 2 * malicious + 3 if strategy == "krum" else 1


def _wrong(terms: Terms) -> Iterator[str]:
    """What does not fit together."""
    least = least_updates(terms.strategy, terms.malicious_nodes)
    if terms.nodes < least:
        malicious = terms.malicious_nodes
        among = f", of which {malicious} may be malicious" if malicious else ""
        yield f"{terms.strategy} needs at least {least} nodes{among}; nodes is {terms.nodes}"
    if terms.malicious_nodes and terms.strategy != "krum":
        yield "only krum takes malicious-nodes"
    if terms.server_learning_rate and terms.strategy != "fedadam":
        yield "only fedadam takes server-learning-rate"
    if terms.trainable and terms.parameters:
        yield "trainable and parameters both say what trains: give one"
    if terms.noise_multiplier and not terms.clip_norm:
        yield "noise is in proportion to clip-norm: give it too"
    if terms.on_deadline and not terms.deadline_seconds:
        yield "on-deadline is about deadline-seconds: give it too"
    if terms.deadline_seconds > terms.round_timeout:
        yield "deadline-seconds must not be above round-timeout: updates would be late"
    if terms.share and terms.compression != "top_k":
        yield 'only top_k keeps a share: give compression="top_k" too'
    if terms.secure_aggregation:
        yield from _against_secure_aggregation(terms)


def _against_secure_aggregation(terms: Terms) -> Iterator[str]:
    """Why this run cannot have it: the server sees only a sum, not who sent what."""
    if terms.strategy not in AVERAGING:
        yield (
            f"secure-aggregation shows the server one sum, and {terms.strategy} needs each update; "
            f"take one of {', '.join(AVERAGING)}"
        )
    if terms.compression != "none":
        yield (
            "secure-aggregation adds up numbers of one scale, which compressed updates have not; "
            'take compression="none"'
        )
    if terms.server_clip_norm:
        yield (
            "secure-aggregation hides the updates that server-clip-norm would clip; use clip-norm, "
            "which devices apply"
        )
    if terms.nodes < 3:
        yield (
            "secure-aggregation needs at least 3 nodes: of two, each knows the other's update from "
            "the sum"
        )
