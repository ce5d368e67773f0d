"""All kinds of preprocessing.

A job's child loads them only if its model has one: they are a tenth of its modules' loading time.
"""

from __future__ import annotations

from service.preprocess.audio import Audio
from service.preprocess.image import Image
from service.preprocess.kind import Kind
from service.preprocess.standardize import Standardize
from service.preprocess.text import Text
from service.preprocess.windows import Windows

KINDS: dict[str, type[Kind]] = {
    kind.kind: kind for kind in (Audio, Image, Standardize, Text, Windows)
}
"""Kind by name."""
