"""Whether a store holds what it must, and nothing that it must not."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from truth import DIGEST_BYTES, MODEL, Held, Truth, content, time_of

from storage.erasure import deletions
from storage.store import Store

deletions.AT_ONCE = 5
"""So that the few samples of a soak are deleted, and moved to another pack, in slices too."""
_LONG_AFTER = timedelta(days=365 * 4000)


def data_dir(device: Path) -> Path:
    """The data folder; beside it is what a restore moves away, and the archives."""
    return device / "data"


def archive(device: Path, hour: int) -> Path:
    """Where the backup of an hour is kept that was not the daemon's own."""
    return device / f"{hour}.zip"


def open_store(folder: Path) -> Store:
    """As a daemon would, long after all that the soak's calendar may reach."""
    return Store.open(folder, now=lambda: datetime.now(timezone.utc) + _LONG_AFTER)


def find(device: Path, may_be: list[Truth], *, is_strict: bool) -> Truth:
    """Open the store; which of these it holds.

    is_strict: each own backup must be there too; a call that failed may have cost one of them.
    Raises AssertionError if it holds none of them.
    """
    store = open_store(data_dir(device))
    try:
        differences = []
        for each in may_be:
            difference = _difference(store, each) or _of_backups(store, each, is_strict=is_strict)
            if difference is None and store.restoration and not each.is_repaired:
                difference = "nothing else"
            if difference is None:
                _see_the_rest(device, store, each)
                return each
            differences.append(difference)
        raise AssertionError("\n".join([f"{store.restoration}", *differences]))
    finally:
        store.close()


def _difference(store: Store, held: Held) -> str | None:
    model = store.models.get(MODEL)
    rows = store.samples.list(model.id, limit=10_000)
    numbers = {content(n): n for n in held.samples}
    found = {numbers.get(store.samples.content(model.id, row.id), -row.id): row for row in rows}
    samples = {number: row.label for number, row in found.items()}
    aliases = dict(store.aliases.list(model.id, 1000))
    aliases.pop("latest", None)
    packs = b"".join(path.read_bytes() for path in store.packs_dir.glob("*/*.pack"))
    parts = {packs[at : at + DIGEST_BYTES] for at in range(0, len(packs), DIGEST_BYTES)}
    left = [n for n in held.gone if content(n)[:DIGEST_BYTES] in parts]
    if (samples, aliases) == (held.samples, held.aliases) and not left:
        return None
    return (
        f"lost {sorted(held.samples.items() - samples.items())}, "
        f"came {sorted(samples.items() - held.samples.items())}, "
        f"aliases {aliases} for {held.aliases}, bytes of deleted ones left: {left}"
    )


def _of_backups(store: Store, truth: Truth, *, is_strict: bool) -> str | None:
    """Removes from the truth the own backups that a failing call has cost."""
    made = {time for time, _ in store.backups.made(time_of(truth.hour))}
    there = {hour: backup for hour, backup in truth.backups.items() if time_of(hour) in made}
    newest = max(truth.backups, default=None)
    if made and max(made) not in map(time_of, there):
        return f"an own backup of {max(made)}, for {sorted(truth.backups)}"
    if is_strict and newest not in (None, *there):
        return f"own backups {sorted(made)} for {sorted(truth.backups)}"
    truth.backups = there
    return None


def _see_the_rest(device: Path, store: Store, truth: Truth) -> None:
    """Nothing half done is left, and what was replaced is where it was said to be."""
    assert [*store.tmp_dir.iterdir()] == []
    assert not (store.data_dir / "restoring").exists()
    for hour, before in truth.replaced.items():
        folder = next(device.glob(f"**/*replaced-{time_of(hour):%Y%m%dT%H%M%SZ}"))
        replaced = Store.open(folder)
        try:
            assert (difference := _difference(replaced, before)) is None, difference
        finally:
            replaced.close()
