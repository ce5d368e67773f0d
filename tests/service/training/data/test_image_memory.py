"""Large pictures under a limit of memory, each in a process of its own that the limit holds for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image as Pillow

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="RLIMIT_DATA counts mappings on Linux only"
)
SIDE = 5100
ROOM_FOR_ONE, ROOM_FOR_NONE = 430 << 20, 200 << 20

BEGIN = """
import sys
from pathlib import Path
import numpy as np
from service.preprocess import Unreadable, for_signature
from service.training.data.decoding import decode_all
from service.training.data.files import LabelledFiles
from storage.records.signatures import Signature, TargetSpec, TensorSpec
from storage.readonly.sample_index import SampleIndex

path = Path(sys.argv[1])
size = path.stat().st_size // 2
spec = TensorSpec("i", "float32", (3, 8, 8))
signature = Signature((spec,), TargetSpec("labels", "int64", (), 2))
pipeline = for_signature(signature, [{"input": "i", "kind": "image"}])
index = SampleIndex(
    ids=np.array([7, 8]),
    packs=np.zeros(2, np.int32),
    offsets=np.array([0, size]),
    lengths=np.array([size, size]),
    labels=np.zeros(2, np.int64),
    pack_paths=(path,),
)
"""
DECODE = """
outcome = decode_all(index, pipeline.files, None, threads=2, tick=lambda: None)
print(outcome.decoded, outcome.unreadable)
"""
PREDICT = """
try:
    pipeline.tensors([path.read_bytes()[:size]])
except Unreadable as error:
    print(error)
"""
TRAIN = """
from service.training.errors import OutOfMemory
try:
    LabelledFiles(index, signature, pipeline.files, None).inputs(np.array([1]))
except OutOfMemory as error:
    print(error)
"""


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of two pictures of 26 megapixels, each of which is decoded alone."""
    path = tmp_path_factory.mktemp("pictures") / "1.pack"
    Pillow.new("RGBA", (SIDE, SIDE), (1, 2, 3, 4)).save(path, "PNG", compress_level=1)
    path.write_bytes(path.read_bytes() * 2)
    return path


def run(program: str, pack: Path, limit_bytes: int) -> str:
    import resource

    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program, str(pack)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit_bytes, limit_bytes)),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_two_that_do_not_fit_together_are_decoded_one_after_the_other(pack: Path) -> None:
    assert run(DECODE, pack, ROOM_FOR_ONE) == "2 {}\n"


def test_one_that_does_not_fit_alone_cannot_be_read(pack: Path) -> None:
    said = run(DECODE, pack, ROOM_FOR_NONE)

    assert said.startswith("0 {0: 'it does not fit into memory")
    assert "1: 'it does not fit into memory" in said


def test_asked_about_it_is_refused_by_its_place(pack: Path) -> None:
    assert run(PREDICT, pack, ROOM_FOR_NONE).startswith("image 0: it does not fit into memory")


def test_in_training_it_is_named(pack: Path) -> None:
    assert run(TRAIN, pack, ROOM_FOR_NONE).startswith("sample 8: it does not fit into memory")
