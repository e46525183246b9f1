"""A camera of a fleet, in this process: it goes on from its states, and trades once."""

import pytest
from small_fleets import camera, lines_of

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.fleet.merging_point import MergingPoint
from mmseg_reservoir.snapshot import read_folder
from mmseg_reservoir.snapshot.merge import same

LOOKS = ("clear", "dark", "bright")


def experts(folder):
    return [{**vars(e), "tally": vars(e.tally)} for e in read_folder(folder).experts]


@pytest.mark.parametrize("die_at", [0, 4, 7, 17])
def test_what_was_killed_ends_as_if_it_had_not_been(tmp_path, die_at):
    told = camera(tmp_path / "whole", LOOKS).run()
    assert told == {"frames": 18, "exchanges": 0, "refused": None, "k": 3}
    broken = camera(tmp_path / "broken", LOOKS, die_at=die_at, fail=True)
    with pytest.raises(KeyboardInterrupt):
        broken.run()
    again = camera(tmp_path / "broken", LOOKS, die_at=die_at, fail=True)
    assert again.run() == told
    assert lines_of(tmp_path / "broken") == lines_of(tmp_path / "whole")
    assert same(experts(tmp_path / "broken/reservoir"), experts(tmp_path / "whole/reservoir"))


def test_a_finished_camera_does_nothing(tmp_path):
    camera(tmp_path / "one", LOOKS).run()
    before = (tmp_path / "one/lines.txt").stat().st_mtime_ns
    assert camera(tmp_path / "one", LOOKS).run()["frames"] == 18
    assert len(lines_of(tmp_path / "one")) == 18
    assert (tmp_path / "one/lines.txt").stat().st_mtime_ns >= before


def test_a_fleet_of_one_is_a_single_run(tmp_path):
    camera(tmp_path / "alone", LOOKS).run()
    point = MergingPoint(tmp_path / "reservoir")
    assert camera(tmp_path / "one", LOOKS).run(point.exchange)["exchanges"] == 4
    assert lines_of(tmp_path / "one") == lines_of(tmp_path / "alone")
    assert same(experts(tmp_path / "reservoir"), experts(tmp_path / "alone/reservoir"))


def test_an_exchange_that_is_asked_for_again_is_not_merged_again(tmp_path):
    """The camera is killed after the merge, before it could save the answer."""
    whole = MergingPoint(tmp_path / "whole/reservoir")
    broken = MergingPoint(tmp_path / "broken/reservoir")
    calls = []

    def dies(*words):
        answer = broken.exchange(*words)
        calls.append(words[1])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return answer

    for point, folder in ((whole, "whole"), (broken, "broken")):
        camera(tmp_path / folder / "first", ("dark", "flat"), seed=3).run(point.exchange)
    camera(tmp_path / "whole/second", LOOKS).run(whole.exchange)
    with pytest.raises(KeyboardInterrupt):
        camera(tmp_path / "broken/second", LOOKS).run(dies)
    # The merging point was killed, too.
    broken = MergingPoint(tmp_path / "broken/reservoir")
    camera(tmp_path / "broken/second", LOOKS).run(dies)
    assert calls == [1, 2, 2, 3, 4]
    assert lines_of(tmp_path / "broken/second") == lines_of(tmp_path / "whole/second")
    images = [e["tally"]["images"] for e in experts(tmp_path / "broken/reservoir")]
    assert sum(images) == 2 * (12 + 18)
    assert same(experts(tmp_path / "broken/reservoir"), experts(tmp_path / "whole/reservoir"))


def test_what_one_has_met_is_no_news_to_the_next(tmp_path):
    point = MergingPoint(tmp_path / "reservoir")
    camera(tmp_path / "first", ("clear", "dark")).run(point.exchange)
    camera(tmp_path / "second", ("clear", "clear", "dark"), seed=5).run(point.exchange)
    second = [line["expert"] for line in lines_of(tmp_path / "second")]
    assert set(second[:12]) == {0}
    assert set(second[13:]) == {1}  # the expert of the first one: none was opened
    assert len(point.snapshot.experts) == 2


def test_no_room_is_told_and_the_camera_goes_on_by_itself(tmp_path):
    point = MergingPoint(tmp_path / "reservoir")
    camera(tmp_path / "first", ("dark", "flat"), k_max=3).run(point.exchange)
    # It opens a domain of its own before it hears of those of the first.
    second = camera(tmp_path / "second", ("clear", "bright"), k_max=3, merge_every=50)
    told = second.run(point.exchange)
    assert "K_max is 3" in told["refused"]
    assert told["frames"] == 12
    assert len(point.snapshot.experts) == 3
    assert len(experts(tmp_path / "second/reservoir")) == 2


def test_all_begin_with_one_reservoir(tmp_path):
    start = tmp_path / "start"
    camera(start, ("clear", "dark")).run()
    begun = str(start / "reservoir")
    point = MergingPoint(tmp_path / "reservoir", begun)
    for seed, name in enumerate(("first", "second")):
        told = camera(tmp_path / name, ("dark",), seed=seed, start_from=begun).run(point.exchange)
        assert told["k"] == 2
    assert sum(e.tally.images for e in point.snapshot.experts) == 24 + 12 + 12


def test_another_stream_in_its_folder_is_refused(tmp_path):
    camera(tmp_path / "one", LOOKS).run()
    with pytest.raises(ReservoirError, match="saved by another run"):
        camera(tmp_path / "one", LOOKS, seed=1).run()
    with pytest.raises(ReservoirError, match="merge_every must be a whole"):
        camera(tmp_path / "two", LOOKS, merge_every=0)
