"""Settings: one frozen class, read from `HONED_*` variables and honed.toml."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Set
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import platformdirs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from service.access.principal import Scope, host_name, page_origin
from service.device.memory import default_threads
from service.errors import BadSetting
from service.training.engines.provider_setting import Provider, read_providers

PREFIX = "HONED_"
NOT_SETTINGS = frozenset({"HONED_CONFIG", "HONED_URL", "HONED_TOKEN"})
"""Variables that the command line reads for itself."""
HOOK_VARIABLES = frozenset({"HONED_MODEL", "HONED_MODEL_FILE", "HONED_SHA256", "HONED_VERSION"})
"""Variables that the command of on_promoted finds; it may call `honed` itself."""


def default_data_dir() -> Path:
    """`$STATE_DIRECTORY` where systemd gives one, else the platform's folder for user data."""
    state = os.environ.get("STATE_DIRECTORY", "").split(":")[0]
    return Path(state) if state else platformdirs.user_data_path("honed", appauthor=False)


def config_file() -> Path:
    """`$HONED_CONFIG`, else honed.toml in the platform's folder for user configuration."""
    named = os.environ.get("HONED_CONFIG")
    if named:
        return Path(named)
    return platformdirs.user_config_path("honed", appauthor=False) / "honed.toml"


def socket_path(settings: Settings) -> Path:
    """Where the Unix socket is: as set, where systemd says, or in the data folder."""
    if settings.socket is not None:
        return settings.socket
    runtime = os.environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    return Path(runtime or settings.data_dir) / "api.sock"


def _of_variable(value: Any) -> Any:
    """A list or a table, which a variable holds as JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(f'write a list as ["a"], a table as {{"a": ["b"]}} ({error})') from error


def _of_line(value: Any) -> Any:
    """A command as one line, or as a list."""
    is_line = isinstance(value, str) and not value.lstrip().startswith("[")
    return shlex.split(value) if is_line else _of_variable(value)


OfVariable = BeforeValidator(_of_variable)


def _expanded(value: Any) -> Any:
    """A path whose `~` is a home: shells leave it in `--data-dir=~/…`, and none reads the file."""
    if value == "":
        raise ValueError("an empty path names nothing; leave the setting out for its default")
    return os.path.expanduser(value) if isinstance(value, (str, Path)) else value  # noqa: PTH111


SettingPath = Annotated[Path, BeforeValidator(_expanded)]
HostName = Annotated[str, AfterValidator(host_name)]
PageOrigin = Annotated[str, AfterValidator(page_origin)]


class Settings(BaseModel):
    """Everything that can be configured; `load_settings` reads it."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    host: Annotated[str, AfterValidator(lambda address: address.strip("[]"))] = Field(
        "127.0.0.1", description="Address to listen on."
    )
    port: int = Field(
        8471, ge=0, le=65535, description="TCP port to listen on; 0 takes a free one."
    )
    tcp: bool = Field(True, description="Whether to listen on TCP besides the Unix socket.")
    socket: SettingPath | None = Field(
        None,
        description="Unix socket to listen on (Linux). Default: api.sock in `$RUNTIME_DIRECTORY` "
        "where systemd gives one, else in the data folder.",
    )
    socket_users: Annotated[dict[str, tuple[Scope | Literal["*"], ...]], OfVariable] = Field(
        default_factory=dict,
        description="What users may do on the Unix socket without a token: name or uid, and a list "
        'of scopes, `["*"]` for all. The daemon\'s own user and root may do all unless they are '
        "named.",
    )
    tls_certificate: SettingPath | None = Field(
        None, description="Certificate for TCP, followed by its chain: a PEM file."
    )
    tls_key: SettingPath | None = Field(
        None, description="The certificate's private key: a PEM file without a password."
    )
    insecure_bind: bool = Field(
        False,
        description="Whether an address that other machines reach may be listened on without TLS. "
        "Tokens and samples then cross the network in the clear.",
    )
    allowed_hosts: Annotated[tuple[HostName, ...], OfVariable] = Field(
        (),
        description="Host names accepted in the Host header besides localhost, 127.0.0.1, [::1] "
        "and the address listened on; with a port, a proxy's address.",
    )
    allowed_origins: Annotated[tuple[PageOrigin, ...], OfVariable] = Field(
        (),
        description="Origins of web apps that may make requests, with a narrow token; never `*`.",
    )
    data_dir: SettingPath = Field(
        default_factory=default_data_dir,
        description="Folder of the database, samples, models and the admin token.",
    )
    log_format: Literal["human", "json"] = Field(
        "human", description="Log lines for people, or one JSON object per line."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe level that is logged."
    )
    max_json_bytes: int = Field(
        32 * 2**20,
        ge=1024,
        description="Largest JSON body of samples, bytes; such a body is held in memory.",
    )
    max_upload_bytes: int = Field(
        4 * 2**30, ge=1024, description="Largest streamed upload (npz, model), bytes, unpacked too."
    )
    write_queue_size: int = Field(
        256,
        ge=1,
        le=65536,
        description="Writes that may wait for the database; further ones are answered with 503.",
    )
    history_days: int = Field(
        90, ge=1, le=3650, description="Days for which events, curves and unneeded jobs are kept."
    )
    audit_days: int = Field(
        365, ge=1, le=3650, description="Days for which entries of the audit log are kept."
    )
    audit_entries: int = Field(
        200_000,
        ge=1000,
        description="Maximum number of entries of the audit log of one kind (changes, samples, "
        "exports, refusals); the oldest of who has the most go first.",
    )
    training_threads: int | None = Field(
        None,
        ge=1,
        le=256,
        description="Default of the policy's `max_threads_busy` and `max_threads_idle`.",
    )
    training_nice: int | None = Field(
        None, ge=0, le=19, description="Default of the policy's `nice`."
    )
    training_memory_bytes: int | None = Field(
        None, ge=128 * 2**20, description="Default of the policy's `memory_limit_bytes`."
    )
    training_providers: Annotated[
        tuple[Provider, ...], BeforeValidator(read_providers), OfVariable
    ] = Field(
        (),
        description="ONNX Runtime's execution providers that jobs may train on, in order: the "
        "first is used whose step on a batch of the job agrees with the CPU's. An entry is a name, "
        'or a name with options: `["CUDAExecutionProvider", {"device_id": "1"}]`.',
    )
    checkpoint_interval_s: float = Field(
        60.0, gt=0, le=86400, description="Seconds between two checkpoints of a running job."
    )
    heartbeat_timeout_s: float = Field(
        300.0, gt=0, le=86400, description="Seconds of silence after which the child is killed."
    )
    retry_backoff_s: float = Field(
        5.0,
        ge=0,
        le=3600,
        description="Seconds before a job whose child died is retried; doubles each time.",
    )
    prepare_timeout_s: float = Field(
        300.0, gt=0, le=86400, description="Seconds of silence that end a child without a job."
    )
    tensor_cache_bytes: int = Field(
        4 * 2**30,
        ge=0,
        description="Maximum bytes of decoded images and recordings that are kept on disk for one "
        "model, and of masks; what does not fit is decoded in every epoch. 0 keeps none.",
    )
    disk_reserve_bytes: int = Field(
        256 * 2**20,
        ge=0,
        description="Free space on the data folder's disk, bytes, below which uploads get 507.",
    )
    feature_cache_bytes: int = Field(
        2**30,
        ge=0,
        description="Maximum bytes on disk for one model's features, the outputs of its frozen "
        "part; what does not fit is computed in every epoch.",
    )
    registry_credentials: SettingPath | None = Field(
        None,
        description="Logins to the registries and web servers that models follow: a config.json as "
        "`docker login` or `oras login` writes it (`auths`).",
    )
    event_queue_size: int = Field(
        1000,
        ge=1,
        le=100_000,
        description="Events that may wait for one reader before it is disconnected.",
    )
    event_heartbeat_s: float = Field(
        15.0,
        gt=0,
        le=3600,
        description="Seconds without an event after which a stream sends a comment.",
    )
    on_promoted: Annotated[tuple[str, ...], BeforeValidator(_of_line)] = Field(
        (),
        description="Command that runs when `latest` of a model moves: a list of arguments, or one "
        "line that is split like a shell does. No shell runs it.",
    )
    on_promoted_timeout_s: float = Field(
        60.0, gt=0, le=86400, description="Seconds that the command of on_promoted may take."
    )
    prediction_threads: int = Field(
        default_factory=default_threads, ge=1, le=256, description="Threads of the predictor."
    )
    prediction_sessions: int = Field(
        4, ge=1, le=1000, description="Models that the predictor holds in memory at once."
    )
    prediction_model_bytes: int = Field(
        512 * 2**20,
        ge=1024,
        description="Bytes of model files that the predictor holds at once; one is always held.",
    )
    prediction_body_bytes: int = Field(
        32 * 2**20,
        ge=1024,
        description="Largest body of a prediction, bytes, unpacked too; it is held in memory.",
    )
    prediction_timeout_s: float = Field(
        30.0, gt=0, le=86400, description="Seconds that a prediction may take, loading included."
    )
    prediction_idle_timeout_s: float = Field(
        300.0, gt=0, le=86400, description="Seconds without a prediction before its process ends."
    )
    sysfs_root: SettingPath = Field(Path("/sys"), description="Where the device's /sys is.")
    procfs_root: SettingPath = Field(Path("/proc"), description="Where the device's /proc is.")


def load_settings(**overrides: Any) -> Settings:
    """Settings from arguments, else from the environment, else from the file.

    Raises BadSetting that names the field.
    """
    asked = {name: value for name, value in overrides.items() if value is not None}
    in_file, over_it = _from_file(), _from_environment() | asked
    try:
        return Settings(**{**in_file, **over_it})
    except ValidationError as error:
        raise BadSetting(_explain(error, in_file.keys() - over_it.keys())) from error


def _from_file() -> dict[str, Any]:
    file, named = config_file(), os.environ.get("HONED_CONFIG")
    try:
        if named and os.path.normcase(named) != os.devnull and not file.is_file():
            raise BadSetting(f"HONED_CONFIG: there is no file {named}; name one, or unset it")
        table: dict[str, Any] = msgspec.toml.decode(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise BadSetting(f"{file}: {getattr(error, 'strerror', error)}") from error
    _refuse_unknown(table, set(Settings.model_fields), f"{file}: ")
    return table


def _from_environment() -> dict[str, Any]:
    """Variables that are settings, in any case, as Windows has them; an empty one says nothing."""
    values = {name.upper(): value for name, value in os.environ.items()}
    named = {name: PREFIX + name.upper() for name in Settings.model_fields}
    ours = [name for name in values if name.startswith(PREFIX)]
    _refuse_unknown(ours, {*named.values(), *NOT_SETTINGS, *HOOK_VARIABLES})
    return {name: values[variable] for name, variable in named.items() if values.get(variable)}


def _refuse_unknown(names: Iterable[str], known: set[str], where: str = "") -> None:
    for name in sorted(set(names) - known):
        import difflib

        bare = {field.removeprefix(PREFIX): field for field in known}
        near = difflib.get_close_matches(name.removeprefix(PREFIX), bare, n=1)
        hint = f"did you mean {bare[near[0]]}?" if near else "docs/settings.md lists them"
        raise BadSetting(f"{where}{name} is not a setting; {hint}")


def _explain(error: ValidationError, of_file: Set[str]) -> str:
    lines = []
    for fault in error.errors():
        name = fault["loc"][0]
        where = config_file() if name in of_file else f"{PREFIX}{name}".upper()
        field = ".".join(str(part) for part in fault["loc"] if "[" not in str(part))  # of a union
        wrong = fault["msg"].removeprefix("Value error, ").replace("valid tuple", "list")
        wrong = wrong.replace("valid dictionary", "table")
        lines.append(f"setting {field} ({where}): {wrong}, got {fault['input']!r}")
    return "; ".join(lines)
