import errno
import json
import os

import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.runs.route_log import RouteLog, read_routes, take_over_routes


def routes(*numbers):
    return [{"round": 1, "domain": "fog", "batch": number} for number in numbers]


def batches(folder):
    return [route["batch"] for route in read_routes(folder)]


def test_routes_are_appended_and_replace_those_of_another_run(tmp_path):
    for first in (0, 10):
        log = RouteLog(tmp_path / "w")
        log.append(routes(first, first + 1))
        log.append([])
        log.append(routes(first + 2))
        assert log.count == 3
        assert batches(tmp_path / "w") == [first, first + 1, first + 2]


def test_a_full_disk_leaves_no_half_line_behind(tmp_path, monkeypatch):
    log = RouteLog(tmp_path)
    log.append(routes(0))

    def no_space(handle):
        os.truncate(handle, os.fstat(handle).st_size - 5)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", no_space)
        with pytest.raises(OSError, match="No space"):
            log.append(routes(1, 2))
    assert batches(tmp_path) == [0]  # nothing of what failed
    log.append(routes(1, 2))
    assert batches(tmp_path) == [0, 1, 2]


def test_restored_routes_are_the_first_ones_and_the_file_ends_there(tmp_path):
    RouteLog(tmp_path).append(routes(0, 1, 2))
    log = RouteLog(tmp_path)
    assert log.restore(2) == routes(0, 1)
    assert batches(tmp_path) == [0, 1]
    log.append(routes(7))
    assert batches(tmp_path) == [0, 1, 7]
    with pytest.raises(ReservoirError, match=r"routes.jsonl has 3 of the 4 routes .* --overwrite"):
        RouteLog(tmp_path).restore(4)
    assert RouteLog(tmp_path / "new").restore(0) == []


def test_routes_are_taken_over_from_another_folder_and_from_a_finished_run(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    RouteLog(first).append(routes(0, 1))
    take_over_routes(first, first)
    take_over_routes(first, second)
    assert batches(first) == batches(second) == [0, 1]
    (second / "routes.jsonl").unlink()
    rows = routes(5, 6)
    (second / "results.json").write_text(json.dumps({"complete": True, "routes": rows}))
    take_over_routes(second, second)
    assert batches(second) == [5, 6]
    take_over_routes(tmp_path / "nowhere", first)
    assert batches(first) == [0, 1]
