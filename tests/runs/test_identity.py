import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.runs.identity import check_identity, run_identity


def identity(weights="w", **changes):
    config = {
        "method": {"type": "tent", "lr": 1e-3},
        "custom_hooks": [{"type": "AdaptationHook"}, {"type": "ResumeHook", "resume": "auto"}],
        "work_dir": "here",
        "load_from": "here.pth",
        "saving": {"minutes": 1},
    }
    record = {"config": config, "seed": 0, "data": {"fog": {"images": 3, "manifest": "abc"}}}
    return run_identity(record | changes, weights)


def test_places_and_what_only_shows_do_not_matter():
    moved = {"method": {"type": "tent", "lr": 1e-3}, "custom_hooks": [{"type": "AdaptationHook"}]}
    moved |= {"work_dir": "there", "load_from": "there.pth", "saving": None}
    check_identity(identity(), identity(config=moved), "a")


def test_a_seed_counts_once_wherever_it_comes_from():
    one, other = (identity(config={"randomness": r}) for r in ({"seed": 3}, {}))
    check_identity(one, other, "a")
    check_identity(other, one, "a")


def test_objects_are_compared_by_name_not_by_address():
    one, other = (identity(options={"method": object()}) for _ in range(2))
    check_identity(one, other, "a")
    assert one["options"] == {"method": "<object object>"}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (identity(weights="v"), "weights was 'w', is 'v'"),
        (identity(seed=1), "seed was 0, is 1"),
        (identity(config={"method": {"type": "eata"}}), "config.method.type was 'tent', is 'eata'"),
        (identity(data={"fog": {"images": 4}}), "data.fog.images was 3, is 4"),
        (identity(versions={"torch": "2"}), "versions.torch was None, is '2'"),
        (identity(stream={f"{i}": i for i in range(7)}), "stream.4 was None, is 4; and 2 more"),
        (identity(weights="v" * 99), f"is '{'v' * 56}..."),
    ],
)
def test_the_difference_is_shown(changed, message):
    with pytest.raises(ReservoirError, match=r"a\.safetensors was saved by another run") as error:
        check_identity(identity(), changed, "a.safetensors")
    assert message in str(error.value)
    assert "--overwrite" in str(error.value)
