from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import pytest

from mmseg_reservoir.check import read
from mmseg_reservoir.check.read import read_files
from mmseg_reservoir.check.survey import list_files
from mmseg_reservoir.errors import ReservoirError


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

    monkeypatch.setattr(read, "ProcessPoolExecutor", Dying)
    with pytest.raises(ReservoirError, match="use fewer with --workers"):
        small.survey(workers=2)
