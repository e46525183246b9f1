"""The classification data sets: published numbers, and that damage is found in each layout."""

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from ccc_files import write_run
from image_files import write_image

from mmseg_reservoir.cli.check import main
from mmseg_reservoir.datasets import LAYOUTS
from mmseg_reservoir.datasets.ccc import shards_of
from mmseg_reservoir.datasets.check import checks
from mmseg_reservoir.datasets.check.checks import check_all
from mmseg_reservoir.datasets.check.survey import list_files, read_files
from mmseg_reservoir.datasets.disk_layout import Array
from mmseg_reservoir.datasets.imagenet_c import CORRUPTIONS
from mmseg_reservoir.datasets.pacs import CLASSES as PACS_CLASSES
from mmseg_reservoir.errors import ReservoirError


def problems(layout, root, fast=False):
    survey = list_files(layout, root)
    for _ in read_files(survey, fast=fast):
        pass
    return [(f.kind.title, f.cell, f.text) for f in check_all(survey) if not f.kind.is_note]


def only(items):
    assert len(items) == 1, items
    return items[0]


def with_expected(layout, count):
    """The same layout, small."""

    def cells(root):
        return [replace(cell, expected=count) for cell in layout.cells(root)]

    return replace(layout, cells=cells)


def test_published_numbers():
    cells = {name: LAYOUTS[name].cells(None) for name in ("cifar10c", "imagenetc", "pacs")}
    arrays = {cell.condition: cell.array for cell in cells["cifar10c"] if cell.split == "test"}
    assert arrays.pop("labels") == Array((50_000,), classes=10)
    assert tuple(arrays) == CORRUPTIONS
    assert set(arrays.values()) == {Array((50_000, 32, 32, 3), "uint8")}
    assert LAYOUTS["cifar100c"].cells(None)[0].array.classes == 100
    assert Counter(cell.split for cell in cells["imagenetc"]) == {
        f"severity{s}": 15 for s in range(1, 6)
    }
    assert {cell.expected for cell in cells["imagenetc"]} == {50_000}
    assert {cell.split for cell in cells["imagenetc"] if cell.needed} == {"severity5"}
    assert sum(cell.expected for cell in cells["pacs"]) == 9991
    assert {speed: shards_of(speed) for speed in (1000, 2000, 5000)} == {
        1000: (300, 25_000),
        2000: (289, 26_000),
        5000: (300, 25_000),
    }


@pytest.fixture
def cifar(tmp_path):
    """CIFAR-10-C with 20 images per array."""
    root = tmp_path / "CIFAR-10-C"
    root.mkdir()
    np.save(root / "labels.npy", np.arange(20) % 10)
    for index, name in enumerate(CORRUPTIONS):
        np.save(root / f"{name}.npy", np.full((20, 32, 32, 3), index, np.uint8))
    return root


def small_cifar(name="cifar10c"):
    layout = LAYOUTS[name]

    def cells(root):
        return [
            replace(cell, array=replace(cell.array, shape=(20, *cell.array.shape[1:])))
            for cell in layout.cells(root)
        ]

    return replace(layout, cells=cells)


class TestCifar:
    def test_good(self, cifar):
        assert problems(small_cifar(), cifar) == []
        survey = list_files(small_cifar(), cifar)
        assert [f.kind for f in check_all_fast(survey) if f.kind.is_note] == [
            checks.SPLIT_ABSENT
        ] * 4

    def test_missing_corruption(self, cifar):
        (cifar / "fog.npy").unlink()
        expected = (checks.NO_IMAGES.title, "test/fog", "no fog.npy below .")
        for fast in (False, True):
            assert only(problems(small_cifar(), cifar, fast)) == expected

    def test_wrong_arrays(self, cifar):
        np.save(cifar / "fog.npy", np.zeros((10, 32, 32, 3), np.uint8))
        text = "fog.npy: uint8 (10, 32, 32, 3), not uint8 (20, 32, 32, 3)"
        expected = (checks.WRONG_ARRAY.title, "test/fog", text)
        assert only(problems(small_cifar(), cifar)) == expected

    def test_damage(self, cifar):
        path = cifar / "fog.npy"
        path.write_bytes(path.read_bytes()[:-1])
        title, cell, text = only(problems(small_cifar(), cifar))
        assert (title, cell) == (checks.UNREADABLE.title, "test/fog")
        assert text.startswith("fog.npy is truncated")

    def test_a_copy_under_another_name(self, cifar):
        shutil.copy(cifar / "fog.npy", cifar / "snow.npy")
        assert only(problems(small_cifar(), cifar))[0] == checks.DUPLICATES.title

    def test_the_other_cifar(self, cifar):
        title, cell, text = only(problems(small_cifar("cifar100c"), cifar))
        assert (title, cell) == (checks.WRONG_ARRAY.title, "test/labels")
        assert text == "labels.npy: 10 classes from 0 to 9, not 100"

    def test_the_command_says_how_to_fix(self, cifar, capsys):
        assert main(["cifar10c", str(cifar), "--workers", "1"]) == 1
        printed = capsys.readouterr().out
        assert "uint8 (20, 32, 32, 3), not uint8 (50000, 32, 32, 3)" in printed
        assert f"zenodo.org/records/2535967 and unpack it, so that {cifar} holds" in printed

    def test_the_folder_above(self, cifar, capsys):
        assert main(["cifar10c", str(cifar.parent)]) == 2
        assert f"did you mean {cifar}?" in capsys.readouterr().err


def check_all_fast(survey):
    for _ in read_files(survey, fast=True):
        pass
    return check_all(survey)


class TestImageNetC:
    @pytest.fixture
    def root(self, tmp_path):
        for index, name in enumerate(CORRUPTIONS):
            folder = tmp_path / name / "5/n01440764"
            write_image(folder / "ILSVRC2012_val_00000293.JPEG", 10 + index, size=(224, 224))
        return tmp_path

    def test_good_with_severity_5_alone(self, root):
        assert problems(with_expected(LAYOUTS["imagenetc"], 1), root) == []

    def test_damage(self, root):
        layout = with_expected(LAYOUTS["imagenetc"], 1)
        write_image(root / "fog/5/n01440764/ILSVRC2012_val_00000293.JPEG", 3, size=(64, 64))
        shutil.rmtree(root / "snow")
        kinds = {(title, cell) for title, cell, _ in problems(layout, root)}
        assert kinds == {
            (checks.WRONG_SIZE.title, "severity5/fog"),
            (checks.NO_IMAGES.title, "severity5/snow"),
        }

    def test_the_command(self, root, capsys):
        assert main(["imagenetc", str(root), "--fast"]) == 1
        printed = capsys.readouterr().out
        assert "shot_noise/5: 1, expected 50000" in printed
        assert "noise.tar, blur.tar, weather.tar and digital.tar" in printed


class TestCCC:
    RUN = "baseline_20_transition+speed_1000_seed_43"

    @pytest.fixture
    def root(self, tmp_path):
        write_run(tmp_path / self.RUN, shards=2, per_shard=2)
        return tmp_path

    def test_good(self, root):
        assert problems(with_expected(LAYOUTS["ccc"], 2), root) == []

    def test_damage(self, root):
        shard = root / self.RUN / "serial_00001.tar"
        shard.write_bytes(shard.read_bytes()[:4096])
        title, cell, _ = only(problems(with_expected(LAYOUTS["ccc"], 2), root))
        assert (title, cell) == (checks.UNREADABLE.title, "baseline20/speed1000_seed43")

    def test_the_command_counts_shards(self, root, capsys):
        assert main(["ccc", str(root), "--fast"]) == 1
        assert f"{self.RUN}: 2, expected 300" in capsys.readouterr().out

    def test_no_run(self, tmp_path, capsys):
        assert main(["ccc", str(tmp_path)]) == 2
        assert "generate it with github.com/oripress/CCC" in capsys.readouterr().err


class TestDomainNet:
    @pytest.fixture
    def root(self, tmp_path):
        for domain in ("real", "painting", "clipart", "sketch"):
            names = [f"{domain}/zebra/{domain}_344_00000{i}.jpg" for i in range(2)]
            for index, name in enumerate(names):
                write_image(tmp_path / name, 20 * index)
            # One of the 219 classes that are not used.
            write_image(tmp_path / domain / "ant" / f"{domain}_004_000001.jpg", 7)
            lines = "".join(f"{name} 125\n" for name in names)
            (tmp_path / f"{domain}_list.txt").write_text(lines)
        return tmp_path

    def test_good(self, root, capsys):
        assert main(["domainnet126", str(root), "--workers", "1"]) == 0
        assert "fine" in capsys.readouterr().out

    def test_missing_images_are_named(self, root):
        (root / "clipart/zebra/clipart_344_000001.jpg").unlink()
        name = "clipart/zebra/clipart_344_000001.jpg"
        expected = (checks.MISSING.title, "all/clipart", name)
        assert only(problems(LAYOUTS["domainnet126"], root)) == expected

    def test_a_domain_without_images(self, root):
        shutil.rmtree(root / "real/zebra")
        title, cell, text = only(problems(LAYOUTS["domainnet126"], root))
        assert (title, cell) == (checks.NO_IMAGES.title, "all/real")
        assert text == "no real/zebra/real_344_000000.jpg, ... below real"

    def test_no_list(self, root, capsys):
        (root / "sketch_list.txt").unlink()
        with pytest.raises(ReservoirError, match=r"no .*sketch_list.txt: put .*AdaContrast"):
            list_files(LAYOUTS["domainnet126"], root)
        assert main(["domainnet126", str(root)]) == 2


class TestPACS:
    @pytest.fixture
    def root(self, tmp_path):
        for domain in ("photo", "art_painting", "cartoon", "sketch"):
            for index, name in enumerate(PACS_CLASSES):
                suffix = "png" if domain == "sketch" else "jpg"
                write_image(tmp_path / domain / name / f"1.{suffix}", index)
        return tmp_path

    def test_good(self, root):
        assert problems(with_expected(LAYOUTS["pacs"], 7), root) == []

    def test_damage(self, root):
        layout = with_expected(LAYOUTS["pacs"], 7)
        (root / "photo/dog/1.jpg").write_bytes(b"x")
        (root / "sketch/dog/1.png").unlink()
        kinds = {(title, cell) for title, cell, _ in problems(layout, root)}
        assert kinds == {
            (checks.UNREADABLE.title, "all/photo"),
            (checks.WRONG_COUNT.title, "all/sketch"),
        }

    def test_no_images_says_which_names_were_looked_for(self, root):
        for path in (root / "photo").rglob("*.jpg"):
            path.unlink()
        _, _, text = only(problems(with_expected(LAYOUTS["pacs"], 7), root))
        assert text == "no *.jpg or *.jpeg or *.png below photo"

    def test_another_data_set(self, root, capsys):
        assert main(["domainnet126", str(root)]) == 2
        assert "is PACS, not DomainNet-126: check it with 'pacs'" in capsys.readouterr().err
