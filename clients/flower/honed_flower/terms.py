"""The settings of a run: checked before the first round, and sent in part to devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

STRATEGIES = ("fedavg", "fedprox", "fedadam", "fedmedian", "krum")
AVERAGING = ("fedavg", "fedprox", "fedadam")
"""Strategies that need only the weighted mean of all updates."""
CHOICES = {
    "strategy": STRATEGIES,
    "deliver": ("end", "each-round", "never"),
    "on-deadline": ("", "update", "none"),
    "compression": ("none", "int8", "top_k"),
}
POSITIVE = ("rounds", "nodes", "fraction", "round-timeout", "max-samples")
OF_STRATEGY = {"server-learning-rate": "fedadam", "malicious-nodes": "krum"}
TOKENIZER = "tokenizer-sha256"
SENT = (
    *("epochs", "max-steps", "learning-rate", "batch-size", "proximal-mu", "deadline-seconds"),
    *("on-deadline", "clip-norm", "noise-multiplier", "compression", "share", "seed"),
    TOKENIZER,
)
"""The settings that devices are sent; a 0 that means "not given" is left out."""
MOST_ROUNDS = 2**13


@dataclass(frozen=True)
class Terms:
    """The settings as in pyproject.toml, with _ for -."""

    model: str
    parameters: str
    trainable: str
    output: str
    strategy: str
    rounds: int
    nodes: int
    fraction: float
    round_timeout: float
    deliver: str
    evaluate: bool
    epochs: int
    max_steps: int
    learning_rate: float
    batch_size: int
    proximal_mu: float
    deadline_seconds: float
    on_deadline: str
    clip_norm: float
    noise_multiplier: float
    compression: str
    share: float
    seed: int
    server_learning_rate: float
    server_clip_norm: float
    malicious_nodes: int
    max_samples: int
    secure_aggregation: bool
    tokenizer_sha256: str

    def sent(self) -> dict[str, Any]:
        """The settings of a round that devices are sent."""
        values = {name: getattr(self, name.replace("-", "_")) for name in SENT}
        return {name: value for name, value in values.items() if value}

    def of_parameters(self) -> dict[str, Any]:
        """Of these, what devices are sent with parameters that they do not train."""
        return {name: value for name, value in self.sent().items() if name == TOKENIZER}


TYPES = {field.name.replace("_", "-"): field.type for field in fields(Terms)}
"""The names of types, by setting."""


def read_terms(config: Mapping[str, Any]) -> Terms:
    """Raises ValueError that lists everything wrong."""
    config = {name: _number(name, value) for name, value in config.items()}
    problems = [f"{name} is missing" for name in TYPES if name not in config]
    problems += [f"{name} is no setting" for name in config if name not in TYPES]
    if not problems:
        problems = _wrong(config)
    if problems:
        raise ValueError("the run's settings are wrong: " + "; ".join(problems))
    return Terms(**{name.replace("-", "_"): config[name] for name in TYPES})


def least_updates(strategy: str, malicious: int) -> int:
    """The number of updates that a round needs: Krum's guarantee is of 2f + 3 with f malicious
    ones. Source: Blanchard et al. (2017), proposition 1.
    """
    return 2 * malicious + 3 if strategy == "krum" else 1


def _number(name: str, value: Any) -> Any:
    """Convert a number: `clip-norm=1` is a float although it is written without a point."""
    return float(value) if TYPES.get(name) == "float" and type(value) is int else value


def _wrong(config: Mapping[str, Any]) -> list[str]:
    problems = [
        f"{name} is {value!r}, it takes {TYPES[name]}"
        for name, value in config.items()
        if type(value).__name__ != TYPES[name]
    ]
    if problems:
        return problems
    problems += [
        f"{name} is {config[name]!r}, it takes one of {', '.join(choices)}"
        for name, choices in CHOICES.items()
        if config[name] not in choices
    ]
    problems += [f"{name} must be above 0" for name in POSITIVE if config[name] <= 0]
    problems += [
        f"{name} must not be above 1" for name in ("fraction", "share") if config[name] > 1
    ]
    problems += [
        f"{name} must not be below 0"
        for name in (*SENT, *OF_STRATEGY, "server-clip-norm")
        if isinstance(config[name], int | float) and config[name] < 0
    ]
    problems += [f"{name} is missing" for name in ("model", "output") if not config[name]]
    if config["rounds"] >= MOST_ROUNDS:
        problems.append(f"rounds is {config['rounds']}, the most is {MOST_ROUNDS - 1}")
    strategy, malicious = config["strategy"], config["malicious-nodes"]
    if config["nodes"] < (least := least_updates(strategy, malicious)):
        among = f", of which {malicious} may be malicious" if malicious else ""
        problems.append(
            f"{strategy} needs at least {least} nodes{among}; nodes is {config['nodes']}"
        )
    problems += [
        f"only {strategy} takes {name}"
        for name, strategy in OF_STRATEGY.items()
        if config[name] and config["strategy"] != strategy
    ]
    if config["trainable"] and config["parameters"]:
        problems.append("trainable and parameters both say what trains: give one")
    if config["noise-multiplier"] and not config["clip-norm"]:
        problems.append("noise is in proportion to clip-norm: give it too")
    if config["on-deadline"] and not config["deadline-seconds"]:
        problems.append("on-deadline is about deadline-seconds: give it too")
    if config["deadline-seconds"] > config["round-timeout"]:
        problems.append("deadline-seconds must not be above round-timeout: updates would be late")
    if config["share"] and config["compression"] != "top_k":
        problems.append('only top_k keeps a share: give compression="top_k" too')
    return problems + (_against_secure_aggregation(config) if config["secure-aggregation"] else [])


def _against_secure_aggregation(config: Mapping[str, Any]) -> list[str]:
    """Why this run cannot have it: the server sees only a sum, not who sent what."""
    problems = []
    if config["strategy"] not in AVERAGING:
        problems.append(
            f"secure-aggregation shows the server one sum, and {config['strategy']} needs each "
            f"update; take one of {', '.join(AVERAGING)}"
        )
    if config["compression"] != "none":
        problems.append(
            "secure-aggregation adds up numbers of one scale, which compressed updates have not; "
            'take compression="none"'
        )
    if config["server-clip-norm"]:
        problems.append(
            "secure-aggregation hides the updates that server-clip-norm would clip; use clip-norm, "
            "which devices apply"
        )
    if config["nodes"] < 3:
        problems.append(
            "secure-aggregation needs at least 3 nodes: of two, each knows the other's update from "
            "the sum"
        )
    return problems
