"""A file that may not grow: the limit is the operating system's, so the failure is real."""

import sys

import pytest
from support import DEADLINE_S

from storage.store import Store

if sys.platform == "win32":
    pytest.skip("there is no RLIMIT_FSIZE on Windows", allow_module_level=True)

UPLOAD = """
import resource, sys
from pathlib import Path
from storage.errors import StorageFull
from storage.store import Store
store = Store.open(Path(sys.argv[1]))
model = store.models.get("digits")
count = int(sys.argv[2])

def upload():
    with store.samples.stage(model.id, 4096) as staging:
        staging.add(bytes(4096) * count, [1] * count)
        staging.commit()

unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (700_000, unlimited[1]))
try:
    upload()
except StorageFull as error:
    print("full:", error, flush=True)
resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
print(store.sample_stats.counts(model.id).unlabelled, len(list(store.packs_dir.glob("*/*"))))
upload()
counts = store.sample_stats.counts(model.id)
print(counts.train + counts.validation, len(list(store.tmp_dir.iterdir())))
store.close()
"""


@pytest.mark.parametrize("count", [200, 1000], ids=["in the pack", "in the spool"])
def test_a_full_disk_refuses_the_upload_and_takes_the_next(data_dir, add_model, start_child, count):
    store = Store.open(data_dir)
    add_model(store)
    store.close()
    output, _ = start_child(UPLOAD, data_dir, count).communicate(timeout=DEADLINE_S)
    refusal, after_refusal, after_retry = output.splitlines()
    assert refusal.startswith("full: cannot st")
    assert after_refusal == "0 0"
    assert after_retry == f"{count} 0"
