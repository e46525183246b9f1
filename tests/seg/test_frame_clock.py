import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.seg.frame_clock import FrameClock


def missed(clock, count, work=("adapt",), frames=1):
    """Let batches arrive; the numbers of those that are missed."""
    numbers = []
    for number in range(count):
        clock.arrive(frames)
        if clock.is_busy:
            numbers.append(number)
        else:
            clock.spend(work)
    return numbers


def test_a_model_that_is_fast_enough_misses_nothing():
    assert missed(FrameClock(10, step_seconds=0.05), 20) == []
    for rate in (3, 7, 10, 30, 59.94):  # done exactly when the next frame arrives
        assert missed(FrameClock(rate, step_seconds=1 / rate), 2000) == []
    assert missed(FrameClock(10, step_seconds=0.1), 2000) == []


def test_frames_that_arrive_during_a_step_are_missed():
    # Steps from 0 to 0.25, from 0.3 to 0.55, from 0.6 to 0.85.
    assert missed(FrameClock(10, step_seconds=0.25), 9) == [1, 2, 4, 5, 7, 8]
    assert missed(FrameClock(4, step_seconds=0.25), 9) == []
    assert missed(FrameClock(5, step_seconds=0.25), 6) == [1, 3, 5]


def test_a_batch_arrives_with_its_last_frame():
    assert missed(FrameClock(10, step_seconds=0.25), 6, frames=2) == [1, 3, 5]
    assert missed(FrameClock(10, step_seconds=0.25), 6, frames=3) == []


def test_costs_are_of_the_stages_that_ran():
    costs = dict(style=0.01, predict=0.05, adapt=0.15, trial=0.02)
    assert missed(FrameClock(10, step_seconds=costs), 6, ("style", "predict")) == []
    assert missed(FrameClock(10, step_seconds=costs), 6, ("style", "adapt")) == [1, 3, 5]
    blended = ("style", "adapt", "predict", "probe")  # a stage without a cost takes no time
    assert missed(FrameClock(10, step_seconds=costs), 6, blended) == [1, 2, 4, 5]
    tried = ("style", "adapt", "trial", "trial", "trial")
    assert missed(FrameClock(10, step_seconds=costs), 6, tried) == [1, 2, 4, 5]


def test_a_clock_resumes_where_it_was_saved():
    whole, first, second = (FrameClock(10, step_seconds=0.35) for _ in range(3))
    expected = missed(whole, 20)
    found = missed(first, 6)
    second.load_state_dict(first.state_dict())
    assert found + [6 + number for number in missed(second, 14)] == expected


def test_measured_costs_are_saved():
    clock, other = FrameClock(10), FrameClock(10)
    assert clock.report() == {"frame_rate": 10, "missed": "answer", "step_seconds": None}
    clock.step_seconds = {"predict": 0.1, "adapt": 0.2}
    other.load_state_dict(clock.state_dict())
    assert other.report()["step_seconds"] == {"predict": 0.1, "adapt": 0.2}


@pytest.mark.parametrize(
    ("rate", "costs", "message"),
    [
        (0, None, "frame_rate must be a number of frames per second above 0, got 0"),
        (-1.0, None, "got -1.0"),
        (float("nan"), None, "got nan"),
        (10, -0.1, "step_seconds must be seconds, 0 or more, got -0.1"),
        (10, float("inf"), "got inf"),
        (10, "fast", "got 'fast'"),
        (10, True, "got True"),
        (10, dict(adapt=0.1), "needs predict and adapt, .* got adapt"),
        (10, {}, "got nothing"),
        (10, dict(adapt=0.1, predict=0.1, learn=1), "got adapt, predict, learn"),
        (10, dict(adapt=0.1, predict=None), "step_seconds.predict must be seconds"),
    ],
)
def test_options_are_checked(rate, costs, message):
    with pytest.raises(ReservoirError, match=message):
        FrameClock(rate, step_seconds=costs)
