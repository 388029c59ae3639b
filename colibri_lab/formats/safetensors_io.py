"""Reading a checkpoint's ``safetensors`` files through their own library.

One file, or shards that ``model.safetensors.index.json`` names. Files are mapped by the library;
a tensor is copied out when it is read, so a model is used in bounded memory.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  registers bfloat16 with NumPy, which safetensors then returns
import numpy as np
from safetensors import SafetensorError, safe_open

from ..errors import FormatError, ModelError
from .mapping import check_not_shrunk

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"
DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("float32"),
    "F16": np.dtype("float16"),
    "BF16": np.dtype("bfloat16"),
}
BYTES: dict[str, np.dtype[Any]] = {"U8": np.dtype("uint8")}
Array = np.ndarray[Any, np.dtype[Any]]


class CheckpointFiles:
    """The tensors of a checkpoint folder by name.

    path : the folder.   Raises FormatError naming the file, and the tensor where it is one's fault.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._stack = ExitStack()
        self._shard_of = _shards(self.path)
        self._open: dict[str, Any] = {}
        self._mapped: dict[str, os.stat_result] = {}
        try:
            for shard in sorted(set(self._shard_of.values())):
                self._mapped[shard] = _stat(self.path / shard)
                self._open[shard] = self._stack.enter_context(_open_shard(self.path / shard))
            self._shard_of = self._check_index()
        except BaseException:
            self.close()
            raise

    def _check_index(self) -> dict[str, str]:
        """The map of tensor names to files, held against what the files contain."""
        names = {shard: set(file.keys()) for shard, file in self._open.items()}
        if set(self._shard_of) == {""}:
            shard = self._shard_of[""]
            return dict.fromkeys(names[shard], shard)
        for name, shard in self._shard_of.items():
            if name not in names[shard]:
                raise FormatError(
                    f"tensor {name} is not in the shard that the index names",
                    path=self.path / shard,
                    expected=name,
                    hint="download the checkpoint again: index and shards do not belong together",
                )
        return self._shard_of

    @property
    def names(self) -> list[str]:
        """Every tensor's name, sorted."""
        return sorted(self._shard_of)

    @property
    def file_paths(self) -> list[Path]:
        """The files that hold the tensors."""
        return [self.path / shard for shard in sorted(self._open)]

    def __contains__(self, name: str) -> bool:
        return name in self._shard_of

    def shape(self, name: str) -> tuple[int, ...]:
        """A tensor's shape, read from the header alone."""
        return tuple(self._slice(name).get_shape())

    def dtype(self, name: str, allowed: dict[str, np.dtype[Any]] = DTYPES) -> np.dtype[Any]:
        """A tensor's dtype; FormatError where it is none of those that are allowed.

        allowed : `DTYPES`, what weights may have, or `BYTES`, for packed weights.
        """
        code = self._slice(name).get_dtype()
        if code not in allowed:
            raise FormatError(
                f"tensor {name} has a dtype that it cannot have",
                path=self.path / self._shard_of[name],
                expected=" or ".join(allowed),
                found=code,
            )
        return allowed[code]

    def num_bytes(self, name: str) -> int:
        """Bytes that the tensor takes in its file."""
        dtype = self.dtype(name, DTYPES | BYTES)
        return int(np.prod(self.shape(name), dtype=np.int64)) * dtype.itemsize

    def check(
        self, name: str, shape: tuple[int, ...], allowed: dict[str, np.dtype[Any]] = DTYPES
    ) -> None:
        """FormatError where the tensor is missing, or its shape or dtype is not what it must be."""
        found = self.shape(name)
        if found != shape:
            raise FormatError(
                f"tensor {name} has a wrong shape",
                path=self.path / self._shard_of[name],
                expected=list(shape),
                found=list(found),
                hint="config.json and the weights do not belong together",
            )
        self.dtype(name, allowed)

    def read(
        self,
        name: str,
        shape: tuple[int, ...],
        index: int | None = None,
        allowed: dict[str, np.dtype[Any]] = DTYPES,
    ) -> Array:
        """A tensor, or its part [index] alone, copied out of the mapping.

        shape, allowed : what the whole tensor must be; FormatError names it where it is not, and
            where its file has shrunk.
        """
        self.check(name, shape, allowed)
        shard = self._shard_of[name]
        check_not_shrunk(self.path / shard, self._mapped[shard])
        whole = self._slice(name)
        part: Array = whole[:] if index is None else whole[index]
        return part

    def _slice(self, name: str) -> Any:
        if name not in self._shard_of:
            raise FormatError(
                f"tensor {name} is missing",
                path=self.path,
                expected=name,
                found=_nearest(name, self.names),
                hint="the checkpoint is incomplete, or of another architecture than it says",
            )
        return self._open[self._shard_of[name]].get_slice(name)

    def fingerprint(self) -> str:
        """Identifies the weights: a hash of the files, of samples of them where they are large."""
        digest = hashlib.sha256()
        for path in self.file_paths:
            digest.update(path.stat().st_size.to_bytes(8, "little"))
            for piece in _pieces(path):
                digest.update(piece)
        return digest.hexdigest()[:16]

    def close(self) -> None:
        """Unmap the files."""
        self._stack.close()

    def __enter__(self) -> CheckpointFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _shards(path: Path) -> dict[str, str]:
    """Tensor name -> file name; the name "" stands for all of a single file's."""
    if not path.is_dir():
        raise ModelError(
            "there is no checkpoint folder here",
            path=path,
            expected="a folder with config.json and model.safetensors",
            found="a file" if path.exists() else "nothing",
        )
    if (path / INDEX_NAME).exists():
        return _read_index(path / INDEX_NAME)
    if (path / SINGLE_NAME).exists():
        return {"": SINGLE_NAME}
    pickled = sorted(file.name for file in path.glob("*.bin"))
    raise ModelError(
        "the checkpoint has no safetensors weights",
        path=path,
        expected=f"{SINGLE_NAME} or {INDEX_NAME}",
        found=f"pickled weights: {', '.join(pickled)}" if pickled else "neither",
        hint="pickled weights can run code and are never read: save the model with "
        "save_pretrained(folder, safe_serialization=True)"
        if pickled
        else "download the weights into this folder",
    )


def _read_index(path: Path) -> dict[str, str]:
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        shards = {str(name): str(file) for name, file in weight_map.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(
            "the index of the shards cannot be read",
            path=path,
            expected='a JSON object with "weight_map": {tensor: file}',
            found=f"{type(error).__name__}: {error}",
        ) from error
    for shard in set(shards.values()):
        if Path(shard).name != shard:
            raise FormatError(
                "the index names a file outside its folder",
                path=path,
                expected="a plain file name",
                found=shard,
            )
    return shards


def _stat(path: Path) -> os.stat_result:
    if not path.is_file():
        raise FormatError(
            "a shard that the index names is absent",
            path=path,
            expected=path.name,
            found="no such file",
            hint="download the missing shard",
        )
    return path.stat()


def _open_shard(path: Path) -> Any:
    try:
        return safe_open(path, framework="numpy")
    except (SafetensorError, OSError) as error:
        raise FormatError(
            "the weights file cannot be read",
            path=path,
            expected="a whole safetensors file",
            found=f"{path.stat().st_size:,} bytes: {error}",
            hint="it may be half-written: download or save it again",
        ) from error


def _pieces(path: Path, whole_below: int = 1 << 28, samples: int = 256) -> Iterator[bytes]:
    """A file's bytes, MiB by MiB; of a large file, samples spread evenly from start to end."""
    piece, size = 1 << 20, path.stat().st_size
    step = piece if size < whole_below else (size - piece) // (samples - 1)
    with path.open("rb") as file:
        for start in range(0, size, step):
            file.seek(start)
            yield file.read(piece)


def _nearest(name: str, names: list[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return f"{len(names)} tensors, the nearest: {', '.join(close)}" if close else f"{len(names)}"
