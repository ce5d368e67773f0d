"""Commands on Windows, from a model's file to a restored backup, with the paths of people."""

from __future__ import annotations

import json
import shutil
import signal

from support import blobs, mlp, wait_until
from wine import ITSELF

LONG = "/".join(["a folder with a long name" * 3] * 3)
"""With a file's name that is more than 260 characters, which Windows once took at most."""
CLASSES = ["Äpfel", "Birnen", "日本", "d"]
LONG_JOB = {"max_steps": 10_000_000, "batch_size": 16, "seed": 5}


def write_csv(path, *, count=200):
    """Lines that end as Windows ends them, after the mark of its editors."""
    samples = blobs(count, 4, len(CLASSES))
    lines = [",".join([*map(str, x), CLASSES[y]]) for x, y in zip(*samples.values(), strict=True)]
    text = "\r\n".join(["x.0,x.1,x.2,x.3,label", *lines, ""])
    path.write_bytes(text.encode("utf-8-sig"))


def commands(windows, served):
    """Run `honed` on Windows for this daemon; its answer if that is JSON."""
    variables = f"HONED_URL={served.url} HONED_TOKEN={served.token}"

    def run(*arguments, is_json=True):
        asked = [*map(str, arguments), *(["--json"] if is_json else [])]
        output = windows.honed(*asked, variables=variables)
        return json.loads(output) if is_json else output

    return run


def test_a_model_is_added_trained_fetched_saved_and_restored(windows, folder, serve_there):
    served = serve_there()
    run = commands(windows, served)
    # Wine does not resolve what the daemon itself would keep below such a folder.
    far = folder / LONG
    far.mkdir(parents=True)
    file, samples = far / "mein Modell.onnx", far / "Proben.csv"
    file.write_bytes(mlp(4, 16, len(CLASSES)))
    write_csv(samples)

    loss = ("--loss", "cross_entropy")
    classes = [word for name in CLASSES for word in ("--class", name)]
    added = run("models", "add", windows.path(file), "--name", "m", *loss, *classes)
    assert added["target"]["classes"] == CLASSES
    assert run("samples", "add", "m", windows.path(samples))[0]["accepted"] == 200
    first = run("samples", "list", "m", "--limit", 1)[0]
    run("samples", "label", "m", first["id"], "日本")
    assert run("samples", "list", "m", "--limit", 1)[0]["label"] == 2
    run("train", "m", "--epochs", 20, "--learning-rate", 0.01, "--watch", is_json=False)
    run("fetch", "m", "-o", windows.path(far / "neu.onnx"))
    latest = served.http.get("/v1/models/m/latest/model.onnx").content
    assert (far / "neu.onnx").read_bytes() == latest != file.read_bytes()
    run("fetch", "m", "--variant", "int8", "-o", windows.path(far / "klein.onnx"))
    (folder / "one.json").write_text(json.dumps({"inputs": {"x": [0.0] * 4}}))
    assert run("predict", "m", windows.path(folder / "one.json"))["version"] == 2

    archive = windows.path(far / "Sicherung.zip")
    assert run("backup", "-o", archive)["missing"] == []
    assert served.stop(signal.SIGTERM) == 0
    drive = other_drive(windows)
    for _ in range(2):
        windows.honed("restore", archive, "--data-dir", "D:\\", "--replace")
    assert len([*drive.glob("replaced-*")]) == 1
    restored = serve_there(drive)
    assert restored.http.get("/v1/models/m/latest/model.onnx").content == latest


def other_drive(windows):
    """An empty D:, as Linux sees it."""
    drives = windows.drive.parent
    shutil.rmtree(drives / "drive_d", ignore_errors=True)
    (drives / "drive_d").mkdir()
    if not (drives / "dosdevices/d:").is_symlink():
        (drives / "dosdevices/d:").symlink_to("../drive_d")
    return drives / "drive_d"


def test_a_job_waits_while_training_is_paused_and_goes_on(windows, serve_there):
    served = serve_there(checkpoint_interval_s=0.1)
    run = commands(windows, served)
    served.register("m", mlp(32, 64, 4))
    served.upload("m", **blobs(500, 32, 4))
    job_id = served.ask_for_job("m", **LONG_JOB)["id"]
    wait_until(lambda: served.job(job_id)["progress"]["step"] > 100, "the job to train")

    run("pause")
    paused = served.wait_for_job(job_id, "paused")
    assert paused["progress"]["step"] > 100
    run("resume")
    wait_until(
        lambda: served.job(job_id)["progress"]["step"] > paused["progress"]["step"], "more steps"
    )
    run("jobs", "cancel", job_id)
    assert served.wait_for_job(job_id)["state"] == "cancelled"


def test_a_folder_in_use_is_refused_to_a_second_daemon(windows, folder, serve_there):
    serve_there()
    output = windows.honed(
        "serve", "--port", "0", "--data-dir", windows.path(folder / "data"), fails=True
    )
    assert "is in use by process" in output
    assert "Größe & Maß, 日本" in output


def test_input_is_reported_to_the_daemon(windows, serve_there):
    """Wine has one session; the daemon looks up whose process reports."""
    served = serve_there()
    program, variable = ITSELF
    variables = f"{variable} HONED_URL={served.url}"
    watching = windows.start(program, "-m", "honed", "watch-input", variables=variables)
    try:
        wait_until(lambda: idle_s(served) is not None, "the time since an input")
        assert watching.poll() is None
    finally:
        watching.kill()
        watching.wait()


def idle_s(served):
    return served.http.get("/v1/device").json()["signals"]["user_idle_s"]["value"]
