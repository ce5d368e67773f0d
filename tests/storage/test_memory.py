import ctypes
import sys

import pytest
from support import DEADLINE_S, wait_until

from storage.store import Store

if sys.platform != "linux":
    pytest.skip("ru_maxrss counts kibibytes on Linux only", allow_module_level=True)

UPLOAD = """
import resource, sys
from pathlib import Path
from storage.store import Store

def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

store = Store.open(Path(sys.argv[1]))
model = store.models.get("digits")
batch, labels = bytes(4096) * 1000, [1] * 1000
before = peak_kib()
with store.samples.stage(model.id, 4096) as staging:
    for n in range(60):
        staging.add(batch, labels, key=[f"{n}-{i}" for i in range(1000)])
    staging.commit()
print(peak_kib() - before)
store.close()
"""


def test_an_upload_of_240_megabytes_takes_little_memory(data_dir, add_model, start_child):
    store = Store.open(data_dir)
    add_model(store)
    store.close()
    output, _ = start_child(UPLOAD, data_dir).communicate(timeout=DEADLINE_S)
    assert int(output) < 32 * 1024


def test_a_writer_at_rest_gives_its_page_cache_back(store, add_model, upload):
    _sqlite3 = pytest.importorskip("_sqlite3")
    used_bytes = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    model = add_model(store)
    for number in range(4):
        upload(store, model, [1] * 5000, first=5000 * number)
    assert used_bytes() > 2 * 2**20
    wait_until(lambda: used_bytes() < 2**20, "the cache to be given back")
