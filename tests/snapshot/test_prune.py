import pytest
import torch
from small_reservoirs import batches, make_pipeline, show

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.snapshot.merge import same
from mmseg_reservoir.snapshot.prune import least_used, prune, unused
from mmseg_reservoir.snapshot.reservoir_snapshot import load_snapshot, take_snapshot


def snapshot(kind, care=True):
    pipeline = make_pipeline(kind, care=care)
    show(pipeline, ["clear", "dark", "bright", "bright"])
    return take_snapshot(pipeline, {})


@pytest.mark.parametrize("kind", ["style", "segment", "oracle"])
def test_an_expert_and_its_domain_go_and_the_others_move_up(kind):
    before = snapshot(kind)
    gone = len(before.experts) - 2
    after = prune(before, [gone])
    kept = [i for i in range(len(before.experts)) if i != gone]
    assert len(after.experts) == len(kept)
    for old, expert in zip(kept, after.experts, strict=True):
        assert torch.equal(expert.parameters, before.experts[old].parameters)
        assert vars(expert.tally) == vars(before.experts[old].tally)
        assert same(before.experts[old].parts["guard"], expert.parts["guard"])
    pipeline = make_pipeline(kind, care=True)
    load_snapshot(after, pipeline)
    bright, dark = batches("bright", 4, seed=3), batches("dark", 12, seed=4)
    assert [pipeline.infer(x, domain="bright").route.index for x in bright][-1] == gone
    opened = [pipeline.step(x, domain="dark").route.is_new for x in dark]
    assert sum(opened) == 1  # it is new again


def test_the_source_stays_and_strangers_are_named():
    reservoir = snapshot("oracle")
    with pytest.raises(ReservoirError, match="expert 0 cannot be removed: it is that of the so"):
        prune(reservoir, [0])
    with pytest.raises(ReservoirError, match=r"expert 9 cannot .* not there. Choose from 1 to 3"):
        prune(reservoir, [1, 9])
    assert prune(reservoir, []) is reservoir


def test_by_use():
    reservoir = snapshot("oracle")  # source: none, clear: 12 images, dark: 12, bright: 24
    assert least_used(reservoir, 2) == [1, 2]
    assert least_used(reservoir, 3) == [1, 2, 3]
    assert unused(reservoir) == []
    reservoir.experts[2].tally.images = 0
    assert unused(reservoir) == [2]
    assert least_used(reservoir, 1) == [2]
    with pytest.raises(ReservoirError, match="4 experts cannot be removed: there are 3 beside"):
        least_used(reservoir, 4)
