import pytest
from run_records import record

from mmseg_reservoir.report.run_warnings import find_warnings, update_line


def troubles(**changes):
    return list(find_warnings(record(**changes)))


def counts(updates=12, skipped=0, not_finite=0, rollbacks=0, restarts=0):
    return {
        "updates": updates,
        "skipped": skipped,
        "not_finite": not_finite,
        "rollbacks": rollbacks,
        "restarts": restarts,
    }


def test_a_healthy_run_has_none():
    assert troubles() == []
    assert update_line(record()) == "12 updates"
    rested = record(trigger={"batches": 40, "rests": 28, "experts": {}})
    assert update_line(rested) == "12 updates, 28 of 40 batches rested at by the trigger"


def test_a_model_that_does_not_adapt_has_no_line_of_updates():
    assert update_line(record(updates=counts(0, skipped=12))) is None
    assert update_line(record(updates={})) is None


def test_updates_that_were_not_made_or_undone_are_told():
    updates = counts(2, 1, 3, 4, 2)
    assert update_line(record(updates=updates)) == (
        "2 updates, 1 skipped by the method, 3 skipped as not finite, 4 rolled back, 2 resets to "
        "the source after three of these in a row"
    )
    (told,) = troubles(updates=updates)
    assert told.startswith(
        "7 of 9 updates broke something and were not made or undone, and 2 times"
    )
    assert told.endswith("is method.optimizer.lr too large?")
    assert update_line(record(updates=counts(0, rollbacks=9))) == "0 updates, 9 rolled back"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"skipped": 2}, "2 images could not be used and were skipped: the scores are incomplete"),
        ({"strange_labels": 3}, "3 images have labels outside the classes, such as labelIds"),
        ({"mIoU": None}, "no labelled pixel in 1 visits (night): they have no score"),
    ],
)
def test_what_is_wrong_with_data_is_told(change, text):
    results = record()
    results["visits"][1] |= change
    (told,) = find_warnings(results)
    assert told.startswith(text)


def with_entropies(*values):
    results = record(rounds=2)
    for route, value in zip(results["routes"][-6:], values, strict=True):
        route["marginal_entropy"] = value
    return results


def test_a_collapse_is_told():
    assert list(find_warnings(with_entropies(0, 0, 0, 1, 1, 1))) == []
    (told,) = find_warnings(with_entropies(0, 0, 0.001, 0.009, 1, 1))
    assert told.startswith("the predictions have collapsed: 4 of 6 in the last round")


def test_predictions_that_are_not_finite_are_told():
    (told,) = find_warnings(with_entropies(None, None, 1, 1, 1, 1))
    assert told == "2 of 6 predictions in the last round are not finite"
