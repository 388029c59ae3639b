"""What a disk is, and what is none."""

import pytest

from colibri_lab.errors import DeviceUnavailable, InputError
from colibri_lab.profiling import storage

MOUNTS = [
    "overlay / overlay rw 0 0",
    "tmpfs {}/in\\040memory tmpfs rw 0 0",
    "/dev/sda {}/in\\040memory/disk ext4 rw 0 0",
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "in memory" / "disk" / "deep").mkdir(parents=True)
    (tmp_path / "in memory of").mkdir()
    monkeypatch.setattr(storage, "_mounts", lambda: [line.format(tmp_path) for line in MOUNTS])
    return tmp_path


def test_the_nearest_mount_counts(folder):
    for name, kind in {
        "in memory": "tmpfs", "in memory/disk/deep": "ext4", "in memory of": "overlay",
    }.items():  # fmt: skip
        assert storage._file_system(folder / name) == kind


def test_memory_is_not_measured_as_a_disk(folder):
    with pytest.raises(DeviceUnavailable, match="in memory"):
        storage.measure_disk(folder / "in memory")
    assert not [path for path in (folder / "in memory").iterdir() if path.is_file()]


def test_a_folder_that_is_none(folder):
    (folder / "file").touch()
    for name in ("nothing", "file"):
        with pytest.raises(InputError, match="no such folder"):
            storage.measure_disk(folder / name)
