from types import SimpleNamespace

import pytest

from mmseg_reservoir.check.manifest import manifest_hash
from mmseg_reservoir.check.record import describe_loader


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
def samples(small):
    return [
        {"img_path": str(small.image("fog", i)), "seg_map_path": str(small.label("fog", i))}
        for i in range(2)
    ]


def test_images_and_labels_relative_to_the_root(small, samples):
    paths = [path for sample in samples for path in sample.values()]
    expected = {"images": 2, "manifest": manifest_hash(paths, small.root), "sorted": True}
    assert describe(samples, str(small.root)) == expected


def test_the_order_is_that_of_the_stream(small, samples):
    assert describe(samples, str(small.root), shuffle=True)["sorted"] is False
    assert describe(samples[::-1], str(small.root))["sorted"] is False


def test_without_a_root_names_count_from_the_common_folder(small, samples):
    images = [{"img_path": sample["img_path"]} for sample in samples]
    expected = manifest_hash([small.image("fog", 0), small.image("fog", 1)], small.image().parent)
    assert describe(images)["manifest"] == expected


def test_files_elsewhere_have_no_manifest():
    assert describe([{"img_path": "s3://bucket/a.png"}]) == {
        "images": 1,
        "manifest": None,
        "sorted": True,
    }
