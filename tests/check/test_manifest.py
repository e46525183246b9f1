import hashlib
import shutil

import pytest

from mmseg_reservoir.check.manifest import manifest_hash
from mmseg_reservoir.files import file_digest


@pytest.fixture
def files(tmp_path):
    root = tmp_path / "here"
    (root / "fog").mkdir(parents=True)
    (root / "fog" / "a.png").write_bytes(b"one")
    (root / "b.png").write_bytes(b"three")
    return root, [root / "fog" / "a.png", root / "b.png"]


def content_hashes(paths):
    return {path: file_digest(path) for path in paths}


def test_it_is_sha256_over_sorted_names_and_sizes(files):
    root, paths = files
    expected = hashlib.sha256(b"b.png\t5\nfog/a.png\t3\n").hexdigest()
    assert manifest_hash(paths, root) == expected
    assert manifest_hash([str(path) for path in reversed(paths)], str(root)) == expected


def test_it_is_the_same_in_another_place(files, tmp_path):
    root, paths = files
    there = tmp_path / "there" / "deeper"
    shutil.copytree(root, there)
    copies = [there / path.relative_to(root) for path in paths]
    assert manifest_hash(copies, there) == manifest_hash(paths, root)
    full = manifest_hash(copies, there, content_hashes(copies))
    assert full == manifest_hash(paths, root, content_hashes(paths))
    assert full != manifest_hash(paths, root)


def test_names_sizes_and_content_all_count(files):
    root, paths = files
    cheap, full = manifest_hash(paths, root), manifest_hash(paths, root, content_hashes(paths))
    paths[0].write_bytes(b"two")
    assert manifest_hash(paths, root) == cheap
    assert manifest_hash(paths, root, content_hashes(paths)) != full
    paths[0].write_bytes(b"longer")
    assert manifest_hash(paths, root) != cheap
    paths[0].write_bytes(b"one")
    renamed = paths[0].rename(root / "fog" / "c.png")
    assert manifest_hash([renamed, paths[1]], root) != cheap
