"""clients/python against a real daemon."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import honed_client
import numpy as np
import pytest
from completions import add_decoder
from decoders import byte_tokenizer, decoder
from honed_client import AsyncClient, Client, HonedError, Model, Unreachable
from honed_client.connection import Events
from pictures import PREPROCESS, image_model, photo
from support import DEADLINE_S, Served, mlp

from cli.demo import digits

CERTIFICATE = Path(__file__).parents[1] / "api" / "listening" / "certificate"
X = [0.5] * 8


@pytest.fixture
def model(served: Served, bell: str) -> Iterator[Model]:
    with Client(served.url, token=served.token) as client:
        yield client.model(bell)


@pytest.mark.parametrize("x", [X, np.array(X, np.float32), {"x": np.array(X)}])
def test_what_was_predicted_is_kept_and_corrected(model: Model, served: Served, x: object) -> None:
    found = model.predict(x, keep=True)
    assert found["probabilities"][found["label"]] == found["probability"]
    sample = model.label(found["id"], "2")
    assert (sample["id"], sample["label"]) == (found["id"], 2)
    assert "id" not in model.predict(x)
    assert model.label(found["id"], None)["label"] is None


def test_a_class_that_is_called_by_a_number_is_found_by_its_name(served: Served) -> None:
    name = "named-by-numbers"
    served.register(name, mlp(8, 4, 3), classes=["3", "1", "2"])
    with Client(served.url, token=served.token) as client:
        sample = client.model(name).add([0.25] * 8)
        assert client.model(name).label(sample, "3")["label"] == 0


def test_samples_are_added_once(model: Model) -> None:
    added = model.add([0.125] * 8, 1, key="one")
    assert added is not None
    assert model.add([0.125] * 8, 1, key="one") is None


def test_a_refusal_says_where(model: Model) -> None:
    with pytest.raises(HonedError, match="/inputs/x") as caught:
        model.predict([1.0])
    assert (caught.value.status, caught.value.code) == (422, "invalid_input")
    with pytest.raises(HonedError, match="there is no model"):
        model.client.model("nobody").latest()


def test_a_daemon_that_is_not_there_is_unreachable() -> None:
    with (
        Client("http://127.0.0.1:1") as client,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"),
    ):
        client.get("/readyz")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such socket")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # httpcore's socket
def test_a_daemon_that_has_gone_is_told_by_its_socket(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "api.sock"
    monkeypatch.delenv("HONED_URL", raising=False)
    monkeypatch.setenv("HONED_SOCKET", str(path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        client = Client()
    with client, pytest.raises(Unreachable, match=f"no daemon answers at unix:{path}: "):
        client.get("/readyz")


def test_a_job_is_waited_for_and_its_model_fetched_once(model: Model, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    assert model.fetch(file)
    assert not model.fetch(file, wait_s=1)
    job = model.train(wait=True, epochs=1, ignore_policy=True)
    assert (job["state"], job["version"]) == ("succeeded", model.latest()["version"])
    assert model.fetch(file)


def test_watch_swaps_the_newest_model_into_a_session(
    model: Model, promote: Callable[[], int]
) -> None:
    x = np.array([X], np.float32)
    with model.watch() as live:
        first, before = live.session, live.sha256
        old = first.run(None, {"x": x})[0]
        promote()
        assert live.wait_for_change(before, DEADLINE_S)
        new = live.session.run(None, {"x": x})[0]
        assert live.trouble is None
    assert not np.allclose(old, new)
    assert model.predict(X)["label"] == new[0].argmax()
    np.testing.assert_array_equal(first.run(None, {"x": x})[0], old)


def test_a_model_that_cannot_be_loaded_leaves_the_session_as_it_is(
    model: Model, promote: Callable[[], int]
) -> None:
    made: list[int] = []

    def make(content: bytes) -> int:
        made.append(len(content))
        if len(made) == 2:
            raise RuntimeError("not for this runtime")
        return len(made)

    with model.watch(make) as live:
        before = live.sha256
        promote()
        assert live.wait_for_change(before, DEADLINE_S)
        assert live.session == 3


def test_the_same_works_in_an_event_loop(
    served: Served, bell: str, promote: Callable[[], int]
) -> None:
    async def use() -> None:
        async with AsyncClient(served.url, token=served.token) as client:
            model = client.model(bell)
            found = await model.predict(X, keep=True)
            assert (await model.label(found["id"], "1"))["label"] == 1
            async with model.watch() as live:
                before = live.sha256
                await asyncio.to_thread(promote)
                await asyncio.wait_for(live.wait_for_change(before), DEADLINE_S)
                assert live.session.run(None, {"x": np.array([X], np.float32)})
            job = await model.train(wait=True, epochs=1, ignore_policy=True)
            assert job["state"] == "succeeded"
            assert (await model.latest())["version"] == job["version"]

    asyncio.run(use())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such socket")
def test_this_machines_daemon_is_found_by_its_socket_without_a_token(
    served: Served, bell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HONED_URL", "HONED_TOKEN", "HONED_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(served.data_dir.parent))
    monkeypatch.setenv("HONED_DATA_DIR", f"~/{served.data_dir.name}")
    with Client() as client:
        assert bell in [model["name"] for model in client.models()]


def test_certificate_authorities_are_read_for_tls_alone(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, load = list[object](), ssl.SSLContext.load_default_certs
    monkeypatch.setattr(
        ssl.SSLContext, "load_default_certs", lambda own: (read.append(1), load(own))
    )
    for name in ("HONED_URL", "HONED_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HONED_DATA_DIR", str(served.data_dir))
    Client().close()
    asyncio.run(AsyncClient(served.url).aclose())
    assert not read
    Client("https://127.0.0.1").close()
    assert read


def test_a_certificate_of_ones_own_authority_is_trusted(
    serve: Callable[..., Served], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"tls_certificate": CERTIFICATE / "certificate.pem", "tls_key": CERTIFICATE / "key.pem"}
    url = serve(tmp_path / "data", **files).url.replace("http:", "https:")
    with Client(url) as client, pytest.raises(Unreachable, match="self-signed"):
        list(client.models())
    monkeypatch.setenv("SSL_CERT_FILE", str(files["tls_certificate"]))
    with Client(url) as client, pytest.raises(Unreachable, match="mismatch"):  # of honed.test
        list(client.models())


def test_no_runtime_is_loaded_unless_a_model_is_watched() -> None:
    code = "import sys, honed_client; print({'onnxruntime', 'numpy'} & set(sys.modules))"
    folder = Path(honed_client.__file__).parents[1]
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_examples_of_its_readme_run(
    served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    served.register("pets", image_model(), preprocess=PREPROCESS, classes=["cat", "dog"])
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(photo(100, 1, kind="JPEG"))
    monkeypatch.chdir(tmp_path)
    served.register("digits", (digits.folder() / "base.onnx").read_bytes())
    images, labels = (array[:40] for array in digits.kept_back())
    served.upload("digits", image=images, label=labels)
    add_decoder(served, "notes", decoder(300), byte_tokenizer(["see you soon"], size=300))
    monkeypatch.setenv("HONED_URL", served.url)
    monkeypatch.setenv("HONED_TOKEN", served.token)
    page = Path(honed_client.__file__).parents[1] / "README.md"
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.S):
        exec(block, names)
    assert names["job"]["state"] == "succeeded"  # type: ignore[index]
    assert names["logits"].shape == names["probabilities"].shape == (100, 10)  # type: ignore[attr-defined]
    assert served.http.delete("/v1/policy").is_success


def test_an_error_in_a_stream_is_raised_with_its_code() -> None:
    events = Events(200)
    assert events.read('data: {"text": "see"}') == {"text": "see"}
    assert events.read("") is events.read("event: error") is None
    with pytest.raises(HonedError, match="it died") as caught:
        events.read('data: {"code": "child_died", "detail": "it died"}')
    assert caught.value.code == "child_died"


def test_texts_are_completed_and_predicted(served: Served) -> None:
    tokenizer = byte_tokenizer(["see you soon, see you there"], size=280)
    add_decoder(served, "words", decoder(280), tokenizer)
    with Client(url=served.url, token=served.token) as client:
        words = client.model("words")
        suggested = words.suggest("see y", 2)
        assert {each["replaces"] for each in suggested} <= {0, 1}
        made = words.complete("see", max_tokens=3, temperature=0)
        assert (made["tokens"], made["version"]) == (3, 1)
        (one, other) = words.predict_all(["see you", "soon"], output="logits")
        assert one == words.predict("see you", output="logits") != other
