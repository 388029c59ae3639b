"""The source text of an observed kernel: from its image, since PyCUDA deletes the file."""

from __future__ import annotations

import struct
from pathlib import Path

from .analysis_records import Kernel

SECTION = ".simt.source"


def section_of(image: bytes, name: str) -> bytes | None:
    """The content of one section of an ELF64 file, little-endian; None where it has none."""
    (table,) = struct.unpack_from("<Q", image, 40)
    entry, count, names = struct.unpack_from("<HHH", image, 58)
    headers = [struct.unpack_from("<IIQQQQ", image, table + entry * i) for i in range(count)]
    texts = headers[names][4]
    for header in headers:
        at = texts + header[0]
        if image[at : image.index(b"\0", at)] == name.encode():
            return image[header[4] : header[4] + header[5]]
    return None


def source_lines(kernel: Kernel, file: str) -> list[str] | None:
    """A file's lines as they were compiled; None where they are no longer at hand."""
    content: bytes | None = None
    try:
        if file == kernel.source_path:
            content = section_of(Path(kernel.image_path).read_bytes(), SECTION)
        if content is None:
            content = Path(file).read_bytes()
    except OSError:
        return None
    return content.decode(errors="replace").splitlines()
