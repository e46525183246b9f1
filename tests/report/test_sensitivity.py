import pytest
from run_records import rich_record

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.report.sensitivity import OPTIONS, sweep


def run(k_max, score, seed=0):
    results = rich_record(seed=seed, options={"reservoir": {"k_max": k_max}})
    for visit in results["visits"]:
        visit["mIoU"] += score
    return results


def test_scores_by_value_with_deviations_over_seeds():
    found = sweep("k_max", [run(8, 0), run(2, -4), run(8, 2, seed=1)])
    assert found.values == [2, 8]
    assert [point.mean for point in found.mean] == pytest.approx([40.0, 45.0])
    assert [point.mean for point in found.last] == pytest.approx([39.0, 44.0])
    assert found.mean[0].deviation is None
    assert found.mean[1].deviation == pytest.approx(2**0.5)
    assert [point.mean for point in found.k] == [2, 2]
    assert (found.metric, found.title) == ("mIoU", OPTIONS["k_max"][0])


def test_batch_size_is_found_for_both_tasks():
    segmentation, classification = rich_record(), rich_record()
    segmentation["config"]["test_dataloader"] = {"batch_size": 1}
    classification["config"]["stream"] = {"batch_size": 100}
    assert sweep("batch_size", [segmentation, classification]).values == [1, 100]


def test_what_cannot_be_swept_is_told():
    with pytest.raises(ReservoirError, match=r"all runs have k_max = 8: give runs with two"):
        sweep("k_max", [run(8, 0), run(8, 1, seed=1)])
    with pytest.raises(ReservoirError, match=r"no options\.reservoir\.memory\.capacity"):
        sweep("m", [run(8, 0), run(2, 0)])
    with pytest.raises(ReservoirError, match="k_max"):
        sweep("kmax", [run(8, 0)])
