"""A camera that knows three fruits learns a fourth from ten photos that a person labels.

The requests are those of the dashboard: a new class, photos that are dropped as files, a label for
each. The photos of before stay as the base set, so that the three are not forgotten.

honed serve &
HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… python examples/photo_tagging/new_fruit.py
"""

from __future__ import annotations

from photos import NEW, take
from tag import NAME, SAMPLES, accuracy, ask, label, register_model, train, upload

PHOTOS, NEW_PHOTOS, KEPT_BACK = 120, 10, 60


def main() -> None:
    """The whole story, told as it goes."""
    register_model()
    known = take(PHOTOS, seed=1)
    upload(known)
    for photo in known:
        label(photo)
    train("--epochs=12")
    ask("POST", f"{NAME}/base-set", json={"first": PHOTOS})
    ask("POST", f"{NAME}/classes", json={"name": NEW})
    for photo in take(NEW_PHOTOS, seed=3, classes=(NEW,)):
        files = [("file", (f"new-{photo.name}", photo.content))]
        stored = ask("POST", SAMPLES, params={"split": "train"}, files=files).json()
        sample = stored["ids"][0]
        ask("PATCH", f"{SAMPLES}/{sample}", json={"label": NEW})
    print(f"{NEW_PHOTOS} photos of a {NEW} were labelled")
    version = train()["version"]
    old, new = take(KEPT_BACK, seed=2), take(KEPT_BACK, seed=4, classes=(NEW,))
    before = accuracy(old, version=2)
    after, learned = (accuracy(photos, version=version) for photos in (old, new))
    print(
        f"the three that it knew: {before:.0%} before, {after:.0%} after; the {NEW}: {learned:.0%}"
    )


if __name__ == "__main__":
    main()
