"""`honed sign`: keys and statements that devices, and other tools, accept."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from cli.main import honed
from service.follow.errors import SignatureRefused
from service.follow.statement import TYPE, authenticated, verified
from service.models.upgrade.spec import LossJson, upgrade_spec
from service.training.protocol.messages.preparation import Lora


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "digits.onnx"
    path.write_bytes(b"a model")
    return path


def sign(model: Path, *options: str) -> Result:
    key = ("--key", str(model.with_name("vendor.key")))
    return CliRunner().invoke(honed, ["sign", str(model), *key, *options])


def made(model: Path, *options: str) -> dict[str, Any]:
    dated = ("--version", "2", "--expires", "2099-01-31")
    result = sign(model, "--make-key", *dated, "--json", *options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_only_its_owner_reads_a_key(model):
    made(model)
    assert model.with_name("vendor.key").stat().st_mode & 0o777 == 0o600


def test_a_key_is_made_once(model):
    first, second = made(model), made(model)
    assert first["key"] == second["key"]
    pem = model.with_name("vendor.key.pub").read_text()
    statement = verified(model.with_name("digits.onnx.sig").read_bytes(), [pem])
    assert (statement.name, statement.version) == ("digits", 2)
    assert statement.expires_at == datetime(2099, 1, 31, tzinfo=timezone.utc)
    assert statement.model.size_bytes == len(b"a model")


def test_what_is_signed_is_what_the_options_say(model):
    made(model, "--name", "d", "--percent", "5", "--spec", 'classes=["a","b"]')
    pem = model.with_name("vendor.key.pub").read_text()
    statement = verified(model.with_name("digits.onnx.sig").read_bytes(), [pem])
    assert (statement.name, statement.percent) == ("d", 5.0)
    assert statement.spec == {"classes": ["a", "b"]}


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ('preprocess={"size": [96, 96]}', "descriptions", ({"size": [96, 96]},)),
        ("trainable=layer1.*", "patterns", ("layer1.*",)),
        ('trainable=["head", {"lora": {"targets": "*attn*"}}]', "patterns", ("head",)),
        ('trainable={"lora": {"targets": "*attn*"}}', "adapters", [Lora(targets=("*attn*",))]),
        ("loss.output=error", "loss", LossJson("error")),
    ],
)
def test_a_spec_is_signed_as_an_upgrade_takes_it(model, given, field, value):
    made(model, "--spec", given)
    pem = model.with_name("vendor.key.pub").read_text()
    signed = verified(model.with_name("digits.onnx.sig").read_bytes(), [pem])
    assert getattr(upgrade_spec(signed.spec), field) == value


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--expires", "2020-01-31"), "--expires 2020-01-31T00:00:00Z is in the past"),
        (("--spec", "colour=blue"), "no such field; there are output"),
        (("--spec", "classes=5"), "/spec/classes: Expected"),
        (("--spec", 'trainable={"lora": {"rank": 0}}'), "/spec/trainable/lora/rank: Expected"),
        (("--name", "n" * 257), "length <= 256"),
        (("--percent", "nan"), "percent"),
        (("--version", str(2**53)), "version"),
    ],
)
def test_what_every_device_would_refuse_is_not_signed(model, option, words):
    result = sign(model, "--make-key", "--version", "2", "--expires", "2099-01-31", *option)
    assert result.exit_code in {1, 2}
    assert words in result.output
    assert not model.with_name("digits.onnx.sig").exists()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_key_of_openssl_signs_and_openssl_verifies(model):
    key, public = model.with_name("vendor.key"), model.with_name("public.pem")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    made(model)
    text = model.with_name("digits.onnx.sig").read_bytes()
    verified(text, [public.read_text()])
    envelope = json.loads(text)
    signed, signature = model.with_name("signed"), model.with_name("signature")
    signed.write_bytes(authenticated(TYPE, base64.b64decode(envelope["payload"])))
    signature.write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    verify = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin"]
    subprocess.run([*verify, "-in", signed, "-sigfile", signature], check=True)


def test_another_key_has_not_signed_it(model, tmp_path):
    made(model)
    other = tmp_path / "other"
    other.mkdir()
    (other / "digits.onnx").write_bytes(b"a model")
    made(other / "digits.onnx")
    pem = (other / "vendor.key.pub").read_text()
    with pytest.raises(SignatureRefused, match="none of the pinned keys"):
        verified(model.with_name("digits.onnx.sig").read_bytes(), [pem])


def test_without_a_key_or_with_another_kind_it_is_wrong_usage(model):
    dated = ("--version", "2", "--expires", "2099-01-31")
    result = sign(model, *dated)
    assert (result.exit_code, "--make-key makes one" in result.output) == (2, True)
    key = model.with_name("vendor.key")
    other = X25519PrivateKey.generate()
    key.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    result = sign(model, *dated)
    assert (result.exit_code, "of another kind" in result.output) == (2, True)
    key.write_text("no key")
    assert sign(model, *dated).exit_code == 2
    assert not model.with_name("digits.onnx.sig").exists()
