"""Settings: one frozen class; a wrong one is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from service.errors import BadSetting
from service.settings import Settings, load_settings

CPU, CUDA, OPENVINO = (f"{each}ExecutionProvider" for each in ("CPU", "CUDA", "OpenVINO"))


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in [name for name in os.environ if name.startswith("HONED_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "honed.toml"
    file.touch()
    monkeypatch.setenv("HONED_CONFIG", str(file))
    return file


def test_every_setting_has_a_description() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name


def test_an_argument_wins_over_a_variable_and_that_over_the_file(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = 'port = 1\nlog_level = "debug"\ntraining_nice = 3\n'
    clean.write_text(lines, encoding="utf-8-sig")  # PowerShell's `Out-File -Encoding utf8`
    monkeypatch.setenv("HONED_PORT", "2")
    monkeypatch.setenv("HONED_TRAINING_NICE", "4")

    settings = load_settings(port=5)

    assert (settings.port, settings.training_nice, settings.log_level) == (5, 4, "debug")


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("HONED_PORT", "70000", "HONED_PORT"),
        ("HONED_PORT", "many", "integer"),
        ("HONED_LOG_FORMAT", "xml", "'human' or 'json'"),
        ("HONED_TRAINING_NICE", "-5", "greater than or equal to 0"),
        ("HONED_ALLOWED_HOSTS", "a.local", r'\(HONED_ALLOWED_HOSTS\): write a list as \["a"\]'),
        ("HONED_ALLOWED_HOSTS", '["http://a.local"]', "'http://a.local' is no name of a host"),
        ("HONED_ALLOWED_HOSTS", '[""]', "'' is no name of a host"),
        ("HONED_SOCKET_USERS", '["me"]', "should be a table, got"),
        ("HONED_SOCKET_USERS", '{"me": "*"}', "should be a list, got '\\*'"),
        ("HONED_SOCKET_USERS", '{"me": ["no such"]}', "HONED_SOCKET_USERS"),
        ("HONED_TRAINING_PROVIDERS", CUDA, "HONED_TRAINING_PROVIDERS.* write a list as"),
        ("HONED_TRAINING_PROVIDERS", '{"a": 1}', "it is a list, such as"),
        ("HONED_TRAINING_PROVIDERS", '["CUDA"]', f'entry 1: names end in .* "{CUDA}"'),
        ("HONED_TRAINING_PROVIDERS", f'["{CUDA}", ["{CUDA}"]]', "entry 2 is neither a name nor"),
        (
            "HONED_TRAINING_PROVIDERS",
            f'[["{CUDA}", {{"a": true}}]]',
            "option 'a' of .* is True; give",
        ),
        ("HONED_TRAINING_PROVIDERS", f'[["{CPU}", {{"a": 1}}]]', "takes no options here"),
    ],
)
def test_a_wrong_value_names_the_setting(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(variable, value)

    with pytest.raises(BadSetting, match=words):
        load_settings()


def test_lists_and_tables_come_as_json_and_a_command_as_a_line(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean.write_text(
        'allowed_hosts = ["b.local"]\ntraining_providers = ["X", ["Y", {a = 1}]]\n'.replace(
            "X", OPENVINO
        ).replace("Y", CUDA)
    )
    monkeypatch.setenv("HONED_ALLOWED_HOSTS", '["a.local"]')
    monkeypatch.setenv("HONED_SOCKET_USERS", '{"me": ["*"]}')
    monkeypatch.setenv("HONED_ON_PROMOTED", "say 'a b'")
    monkeypatch.setenv("honed_tcp", "false")
    monkeypatch.setenv("HONED_HOST", "[::1]")

    settings = load_settings()

    assert settings.allowed_hosts == ("a.local",)
    assert settings.training_providers == ((OPENVINO, {}), (CUDA, {"a": "1"}))
    assert settings.socket_users == {"me": ("*",)}
    assert settings.on_promoted == ("say", "a b")
    assert settings.tcp is False
    assert settings.host == "::1"


@pytest.mark.parametrize(
    ("variable", "hint"),
    [("HONED_PROT", "did you mean HONED_PORT"), ("HONED_FOO", "docs/settings")],
)
def test_a_mistyped_variable_is_not_ignored(
    monkeypatch: pytest.MonkeyPatch, variable: str, hint: str
) -> None:
    monkeypatch.setenv(variable, "1")

    with pytest.raises(BadSetting, match=hint):
        load_settings()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", r"honed\.toml: prot is not a setting; did you mean port\?"),
        ("[server]\nport = 1", r"honed\.toml: server is not a setting; docs/settings"),
        ("port = ", r"honed\.toml: Invalid"),
        ('port = "x"', r"setting port \(.*honed\.toml\)"),
        ('data_dir = ""', "an empty path names nothing"),
        ('socket_users = {root = ["fly"]}', r"socket_users\.root\.0 \(.*honed\.toml\)"),
    ],
)
def test_a_wrong_line_of_the_file_is_named(clean: Path, text: str, words: str) -> None:
    clean.write_text(text)

    with pytest.raises(BadSetting, match=words):
        load_settings()


def test_a_tilde_is_the_home_wherever_a_path_is_told(
    clean: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    clean.write_text('registry_credentials = "~/config.json"\n')
    monkeypatch.setenv("HONED_SOCKET", "~/api.sock")

    found = load_settings(data_dir=Path("~/data"))

    assert found.registry_credentials == tmp_path / "config.json"
    assert found.socket == tmp_path / "api.sock"
    assert found.data_dir == tmp_path / "data"


def test_an_empty_variable_leaves_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    default = load_settings()
    for name in ("HONED_DATA_DIR", "HONED_SOCKET", "HONED_PORT", "HONED_ALLOWED_HOSTS"):
        monkeypatch.setenv(name, "")
    assert load_settings() == default


def test_systemds_state_directory_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/honed:/var/lib/other")

    assert load_settings().data_dir == Path("/var/lib/honed")


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError):
        load_settings().port = 1  # type: ignore[misc]
