"""What a thread makes while somebody in it wants to know."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Noted(threading.local, Generic[T]):
    """Each thread has its own; what is added outside of `inside` is forgotten."""

    _found: list[T] | None = None

    def add(self, item: T) -> None:
        if self._found is not None:
            self._found.append(item)

    @contextlib.contextmanager
    def inside(self) -> Iterator[list[T]]:
        """All that this thread adds until the end."""
        before, found = self._found, list[T]()
        self._found = found
        try:
            yield found
        finally:
            self._found = before
