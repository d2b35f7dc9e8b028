"""A finished export file on its way out."""

from __future__ import annotations

from typing import IO

CHUNK = 64 * 1024


class Chunks:
    """The file piece by piece; closed after the last one. A response closes it too when nobody reads to the end."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __iter__(self) -> Chunks:
        return self

    def __next__(self) -> bytes:
        chunk = b"" if self._file.closed else self._file.read(CHUNK)
        if not chunk:
            self.close()
            raise StopIteration
        return chunk

    def close(self) -> None:
        self._file.close()
