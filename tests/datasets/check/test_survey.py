from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from mmseg_reservoir.datasets.check import survey as survey_module
from mmseg_reservoir.datasets.check.survey import check_root, list_files, read_files
from mmseg_reservoir.errors import ReservoirError


def test_the_root_is_accepted(small):
    check_root(small.root, "acdc")


@pytest.mark.parametrize("below", ["rgb_anon", "rgb_anon/fog", "gt"])
def test_too_deep_names_the_root(small, below):
    with pytest.raises(ReservoirError, match=rf"did you mean {small.root}\?"):
        check_root(small.root / below, "acdc")


def test_too_high_names_the_root(small):
    with pytest.raises(ReservoirError, match=rf"did you mean {small.root}\?"):
        check_root(small.root.parent, "acdc")


def test_another_data_set_is_named(small, minicity):
    with pytest.raises(ReservoirError, match=r"is ACDC, not Cityscapes: check it with 'acdc'"):
        check_root(small.root, "cityscapes")
    with pytest.raises(ReservoirError, match=r"is MiniCity, not ACDC: check it with 'minicity'"):
        check_root(minicity, "acdc")


def test_what_is_nothing_known_tells_where_to_get_it(tmp_path):
    with pytest.raises(ReservoirError, match=r"no leftImg8bit in it\); get leftImg8bit_train"):
        check_root(tmp_path, "cityscapes")
    with pytest.raises(ReservoirError, match=r"no folder .*; get rgb_anon_trainvaltest.zip"):
        check_root(tmp_path / "absent", "acdc")


def test_pairs_by_path_without_suffix(small):
    survey = small.survey()
    fog = survey.cells[0]
    assert list(fog.images) == ["GOPR1/0", "GOPR1/1"]
    assert fog.pairs == ["GOPR1/0", "GOPR1/1"]
    images, labels = (
        [small.image(index=i) for i in range(2)],
        [small.label(index=i) for i in range(2)],
    )
    assert fog.used == images + labels


def test_hidden_files_are_none(small):
    """What macOS leaves on foreign disks; mmengine leaves it out too."""
    small.image().with_name("._0_rgb_anon.png").write_bytes(b"\0\5\26\7")
    assert small.problems() == []


def test_linked_sequences_are_followed(small):
    folder = small.image().parent
    folder.rename(small.root / "elsewhere")
    folder.symlink_to(small.root / "elsewhere")
    assert small.problems() == []


def test_processes_find_the_same_as_one(small):
    small.image().write_bytes(small.image().read_bytes()[:-20])
    alone, together = small.survey(workers=1), small.survey(workers=2)
    assert alone.facts == together.facts
    assert len(alone.facts) == 8
    assert alone.facts[small.image()].fault.startswith("is truncated")


@pytest.mark.parametrize("fast", [False, True])
def test_progress_counts_to_the_end(small, fast):
    survey = list_files(small.layout, small.root)
    assert list(read_files(survey, fast=fast)) == list(range(1, 9))
    assert survey.decoded is not fast


def test_a_process_that_dies_is_explained(small, monkeypatch):
    class Dying(ThreadPoolExecutor):
        def __init__(self, workers, mp_context):
            super().__init__(workers)

        def map(self, *args, **kwargs):
            raise BrokenProcessPool("ended")
            yield

    monkeypatch.setattr(survey_module, "ProcessPoolExecutor", Dying)
    with pytest.raises(ReservoirError, match="use fewer with --workers"):
        small.survey(workers=2)
