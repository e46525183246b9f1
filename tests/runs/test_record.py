import csv
import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small_outcomes import make_outcome

from mmseg_reservoir import __version__
from mmseg_reservoir.core.outcome import NOT_ADAPTING
from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.state_files import read_state, write_state
from mmseg_reservoir.report.closing import closing_tables
from mmseg_reservoir.report.published import row_of
from mmseg_reservoir.report.summary import summarize
from mmseg_reservoir.runs.reader import read_runs
from mmseg_reservoir.runs.record import (
    PACKAGES,
    RunRecord,
    about_pipeline,
    strict_json,
    versions,
)
from mmseg_reservoir.runs.route_log import read_routes
from mmseg_reservoir.runs.style_sample import read_styles

ABOUT = {"reservoir": False, "seed": 3, "config_file": None, "config": {}}


def stored(folder):
    return json.loads((folder / "results.json").read_text(), parse_constant=pytest.fail)


def visit(record, round=1, domain="fog", score=50.0, image="a.png", batch=None, **outcome):
    outcome = make_outcome(**outcome)
    if batch is None:
        added = record.add_images(round, domain, [image], outcome)
    else:
        added = record.add_batch(round, domain, batch, outcome)
    added.score = score
    return added


def test_a_record_has_everything(tmp_path):
    record = RunRecord(tmp_path / "new", "mIoU", {"seed": 3, "row": "Source"})
    visit(record, seconds=0.5, k=2, expert=1).more = {"per_class": {"road": 90.0, "car": math.nan}}
    record.write()
    assert stored(tmp_path / "new") == {
        "complete": False,
        "seed": 3,
        "row": "Source",
        "versions": versions(PACKAGES["mIoU"]),
        "visits": [
            {
                "round": 1,
                "domain": "fog",
                "mIoU": 50.0,
                "n_images": 1,
                "k": 2,
                "seconds_per_image": 0.5,
                "seconds_quartiles": [0.5, 0.5],
                "per_class": {"road": 90.0, "car": None},
            }
        ],
        "n_routes": 1,
    }
    assert read_routes(tmp_path / "new") == [
        {
            "round": 1,
            "domain": "fog",
            "image": "a.png",
            "n_images": 1,
            "expert": 1,
            "k": 2,
            "weight": 1.0,
            "route_entropy": 0.0,
            "opened": False,
            "seconds": 0.5,
            "entropy": pytest.approx(math.log(2)),
            "marginal_entropy": pytest.approx(math.log(2)),
        }
    ]
    with (tmp_path / "new" / "results.csv").open() as file:
        assert list(csv.reader(file)) == [
            ["round", "domain", "mIoU", "n_images", "k", "seconds_per_image", "road", "car"],
            ["1", "fog", "50.0", "1", "2", "0.5", "90.0", ""],
        ]


def test_routes_of_batches_and_images_differ_in_one_key(tmp_path):
    record = RunRecord(tmp_path, "error", {})
    visit(record)
    visit(record, batch=0)
    image, batch = record.routes
    assert set(image) ^ set(batch) == {"image", "batch"}
    assert batch["batch"] == 0


def test_a_visit_counts_its_routes_wherever_they_come(tmp_path):
    record = RunRecord(tmp_path, "error", {})
    first = visit(record, batch=0, images=4, seconds=2.0)
    visit(record, domain="snow")
    second = visit(record, batch=2, images=2, seconds=2.0, k=3)
    assert second is first
    assert (first.n_images, first.k, first.seconds) == (6, 3, 4.0)
    assert record.add_batch(1, "snow", 3, make_outcome(), scored_as="fog") is first
    assert [route["domain"] for route in record.routes] == ["fog", "snow", "fog", "snow"]
    assert list(record.visits) == [(1, "fog"), (1, "snow")]
    assert record.to_json()["visits"][0]["error"] == 50.0
    assert record.to_json()["visits"][1]["seconds_per_image"] is None


def test_complete_only_at_the_end(tmp_path):
    record = RunRecord(tmp_path, "mIoU", ABOUT)
    visit(record)
    record.write()
    assert stored(tmp_path)["complete"] is False
    results = record.finish({"updates": 2}, cpu_seconds=1.5)
    assert results == stored(tmp_path)
    assert (results["complete"], results["cpu_seconds"]) == (True, 1.5)
    assert results["updates"] == {"updates": 2}
    assert results["stages"] is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["results.csv", "results.json"]


def sizes(folder):
    """Return every file's inode, which changes when the file is replaced, and its size."""
    return {path: (path.stat().st_ino, path.stat().st_size) for path in folder.iterdir()}


def bytes_written(before, after):
    """Count what was appended to files, and all of those that were replaced."""
    kept = {path: old[1] for path, old in before.items() if after.get(path, old)[0] == old[0]}
    return sum(size - kept.get(path, 0) for path, (_, size) in after.items())


def test_the_bytes_of_a_visit_do_not_grow_with_the_routes_before_it(tmp_path):
    record = RunRecord(tmp_path, "mIoU", ABOUT)
    written = []
    for round in range(1, 31):
        before = sizes(tmp_path)
        for image in range(200):
            visit(record, round=round, image=f"{image:06d}.png", seconds=0.125)
        record.write()
        write_state(tmp_path / "state.safetensors", record.state_dict(), {})
        written.append(bytes_written(before, sizes(tmp_path)))
    assert len(read_routes(tmp_path)) == 30 * 200
    # Only the entries of the visits before it are written again.
    assert max(written) - written[0] < 29 * 600 < written[0]


def test_a_resumed_record_has_every_route_once(tmp_path):
    whole = RunRecord(tmp_path / "whole", "mIoU", ABOUT)
    record = RunRecord(tmp_path / "killed", "mIoU", ABOUT)
    for number in range(4):
        for one in (whole, record):
            visit(one, image=f"{number}.png", seconds=0.1 * number)
    file = write_state(tmp_path / "state.safetensors", record.state_dict(), {})
    visit(record, image="lost.png")
    record.write()
    with (tmp_path / "killed" / "routes.jsonl").open("a") as lines:
        lines.write('{"round": 1, "dom')  # the process was killed here

    resumed = RunRecord(tmp_path / "killed", "mIoU", ABOUT)
    resumed.load_state_dict(read_state(file)[0])
    assert resumed.routes == whole.routes
    for one in (whole, resumed):
        visit(one, image="last.png")
        one.write()
    assert read_routes(tmp_path / "killed") == read_routes(tmp_path / "whole")
    assert resumed.finish({}) == whole.finish({}) == stored(tmp_path / "killed")


def test_a_state_of_an_earlier_version_is_refused(tmp_path):
    record = RunRecord(tmp_path, "mIoU", ABOUT)
    state = record.state_dict()
    state["routes"] = state.pop("n_routes")
    with pytest.raises(ReservoirError, match=r"earlier version.*--overwrite"):
        record.load_state_dict(state)


def test_an_unfinished_run_is_read_with_its_routes(tmp_path):
    record = RunRecord(tmp_path, "mIoU", ABOUT)
    visit(record)
    record.write()
    visit(record, domain="night")
    record.state_dict()  # is ahead of results.json
    (results,) = read_runs([tmp_path]).values()
    assert [route["domain"] for route in results["routes"]] == ["fog"]
    assert len(read_routes(tmp_path)) == 2


def test_files_are_not_written_too_often(tmp_path):
    record = RunRecord(tmp_path, "mIoU", ABOUT)
    record.write(every=1e9)
    assert not list(tmp_path.iterdir())
    record.write()
    assert stored(tmp_path)["visits"] == []


@pytest.mark.parametrize("metric", ["mIoU", "error"])
def test_what_is_written_can_be_read(tmp_path, metric):
    record = RunRecord(tmp_path, metric, ABOUT)
    for domain in ("fog", "night"):
        visit(record, domain=domain, score=34.875)
    results = record.finish({"updates": 2})
    warnings = []
    assert "34.88" in closing_tables(results, warnings.append)
    groups, more = summarize(read_runs([tmp_path]))
    assert warnings == more == []
    assert (groups[0].metric, groups[0].scores["mean"][0].mean) == (metric, 34.875)


def test_a_described_stream_finds_a_published_row_that_names_none():
    file = Path(__file__).parents[2] / "configs" / "acdc" / "segformer-b5_source.py"
    plain = {"config_file": str(file)}
    row = row_of({**plain, "stream": {"kind": "recurring", "rounds": 10, "shuffle": "never"}})
    assert row is not None
    assert row == row_of(plain)


def test_numbers_that_are_not_finite_are_null():
    odd = {
        "a": math.nan,
        "b": [math.inf, (1.5, -math.inf)],
        "c": {"d": torch.tensor(math.nan).item()},
    }
    assert json.loads(strict_json(odd)) == {"a": None, "b": [None, [1.5, None]], "c": {"d": None}}
    assert json.loads(strict_json({"path": Path("a")})) == {"path": "a"}  # of configs


def test_versions_of_what_is_there():
    found = versions(["numpy", "no-such-package"])
    assert list(found) == ["mmseg_reservoir", "torch", "numpy"]
    assert (found["mmseg_reservoir"], found["torch"]) == (__version__, torch.__version__)


def test_what_is_said_of_a_pipeline():
    assert about_pipeline(None) == {"method": None, "reservoir": False, "tau": None}
    pipeline = SimpleNamespace(method=torch.nn.ReLU(), router=SimpleNamespace(tau=0.5))
    assert about_pipeline(pipeline) == {"method": "ReLU", "reservoir": True, "tau": 0.5}


def test_styles_and_stages_are_those_of_batches(tmp_path):
    record = RunRecord(tmp_path, "error", ABOUT)
    stages = {"style": 2.0, "route": 1.0}
    for batch in range(3):
        style = torch.full((4,), float(batch))
        outcome = make_outcome(2, style=style, stage_seconds=stages, seconds=20.0)
        record.add_images(1, "fog", ["a.png", "b.png"], outcome)
    results = record.finish({"updates": 3})
    vectors, routes = read_styles(tmp_path)
    assert routes.tolist() == [0, 2, 4]
    assert vectors[:, 0].tolist() == [0, 1, 2]
    assert results["stages"] == {"style": 1.0, "route": 0.5, "adapt and predict": 8.5}  # per image


def test_stages_survive_a_resume_and_are_none_without_adaptation(tmp_path):
    record = RunRecord(tmp_path, "error", ABOUT)
    visit(record, seconds=1.0, stage_seconds={"style": 0.25, "route": 0.25})
    resumed = RunRecord(tmp_path, "error", ABOUT)
    resumed.load_state_dict(record.state_dict())
    assert resumed.finish({})["stages"] == {"style": 0.25, "route": 0.25, "adapt and predict": 0.5}
    plain = RunRecord(tmp_path, "error", ABOUT)
    plain.add_images(1, "fog", ["a.png"], NOT_ADAPTING)
    assert plain.finish({})["stages"] is None
