"""The type of arrays for annotations, which are not evaluated.

numpy's own would load numpy: it takes 13 MB, and a resting daemon does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray
else:

    class NDArray:
        """Stands in for numpy's while a program runs."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return cls


__all__ = ["NDArray"]
