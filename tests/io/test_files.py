"""Files that are whole or not there: one function puts them in their place."""

import errno
from pathlib import Path

import pytest

import slewrl
from slewrl.io.files import replacing, write_atomically


def test_a_file_is_the_old_one_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "film.mp4"
    path.write_text("old")
    with replacing(path) as aside:
        assert aside.parent == tmp_path and aside.suffix == ".mp4"  # a writer may choose its format by the ending
        aside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("no"), OSError("a link")])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "x"
    write_atomically(path, "old")
    with pytest.raises(type(error)) as caught, replacing(path) as aside:
        aside.write_text("half")
        raise error
    assert caught.value is error and path.read_text() == "old" and [*tmp_path.iterdir()] == [path]


def test_a_full_disk_says_where(tmp_path):
    with pytest.raises(OSError, match="No space left on device: '.*x'"), replacing(tmp_path / "x"):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_one_place_renames_files():
    found = [path for path in Path(slewrl.__file__).parent.rglob("*.py") if "os.replace(" in path.read_text()]
    assert {path.name for path in found} == {"files.py", "replay.py"}  # replay's file is a map that takes its space
