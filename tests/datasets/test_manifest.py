import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmseg_reservoir.datasets.manifest import describe_loader, manifest_hash
from mmseg_reservoir.io.files import file_digest


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


class Dataset:
    def __init__(self, samples, data_root=None):
        self.samples, self.data_root = samples, data_root

    def __len__(self):
        return len(self.samples)

    def get_data_info(self, index):
        return self.samples[index]


def describe(samples, data_root=None, shuffle=False):
    sampler = SimpleNamespace(shuffle=shuffle)
    return describe_loader(SimpleNamespace(dataset=Dataset(samples, data_root), sampler=sampler))


@pytest.fixture
def samples(tmp_path):
    paths = {"img_path": "rgb_anon/fog/{}.png", "seg_map_path": "gt/fog/{}.png"}
    samples = [{k: str(tmp_path / path.format(i)) for k, path in paths.items()} for i in range(2)]
    for size, path in enumerate(path for sample in samples for path in sample.values()):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(bytes(size))
    return samples


def test_images_and_labels_relative_to_the_root(samples, tmp_path):
    paths = [path for sample in samples for path in sample.values()]
    expected = {"images": 2, "manifest": manifest_hash(paths, tmp_path), "sorted": True}
    assert describe(samples, str(tmp_path)) == expected


def test_the_order_is_that_of_the_stream(samples, tmp_path):
    assert describe(samples, str(tmp_path), shuffle=True)["sorted"] is False
    assert describe(samples[::-1], str(tmp_path))["sorted"] is False


def test_without_a_root_names_count_from_the_common_folder(samples, tmp_path):
    images = [{"img_path": sample["img_path"]} for sample in samples]
    folder = tmp_path / "rgb_anon/fog"
    expected = manifest_hash([folder / "0.png", folder / "1.png"], folder)
    assert describe(images)["manifest"] == expected


def test_files_elsewhere_have_no_manifest():
    assert describe([{"img_path": "s3://bucket/a.png"}]) == {
        "images": 1,
        "manifest": None,
        "sorted": True,
    }
