"""A model whose classes change."""

from __future__ import annotations

from pets import pets  # noqa: F401 - a fixture of this folder
