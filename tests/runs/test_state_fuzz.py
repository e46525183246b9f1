"""A changed state is loaded and the run continues, or it is refused by an error of the project."""

import contextlib

import hypothesis.strategies as st
import pytest
from damage import changed, damaged
from hypothesis import given
from small_outcomes import make_outcome
from small_reservoirs import make_pipeline, show

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.io.state_files import read_state, write_state
from mmseg_reservoir.runs.generators import load_generators, save_generators
from mmseg_reservoir.runs.record import RunRecord
from mmseg_reservoir.runs.run_saver import RunSaver

KINDS = ("style", "segment", "oracle")
IDENTITY = {"seed": 0, "options": {"lr": 0.1}}


def make(kind, folder):
    """A pipeline and the record of a run, as the two tools have them."""
    record = RunRecord(folder, "error", {"seed": 0})
    return make_pipeline(kind, care=kind != "oracle"), record


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """States by the kind of their router, and the folder of each run. To be read only."""
    states = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        pipeline, record = make(kind, folder)
        show(pipeline, ["clear", "dark"], count=3)
        record.add_batch(1, "clear", 0, make_outcome())
        with RunSaver(folder, report=str) as saver:
            saver.begin(IDENTITY)
            state = {
                "pipeline": pipeline.state_dict(),
                "results": record.state_dict(),
                "generators": save_generators(),
            }
            saver.save(6, lambda state=state: state)
            (states[kind],) = saver.states.files()
    return states


def place(saved, tmp_path):
    """Where a copy of a state goes, beside the routes of its run."""
    path = tmp_path / "old" / "state" / saved.name
    path.parent.mkdir(parents=True, exist_ok=True)
    routes = (saved.parent.parent / "routes.jsonl").read_text()
    (tmp_path / "old" / "routes.jsonl").write_text(routes)
    return path


def use(kind, path):
    """Resume a run in another folder."""
    before = path.read_bytes()
    generators = save_generators()
    folder = path.parent / "run"
    pipeline, record = make(kind, folder)
    with contextlib.suppress(ReservoirError), RunSaver(folder, str(path), report=str) as saver:
        state = saver.begin(IDENTITY)
        with saver.restoring():
            pipeline.load_state_dict(state["pipeline"])
            load_generators(state["generators"])
            record.load_state_dict(state["results"])
    load_generators(generators)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_changed_states_with_a_right_checksum(saved, tmp_path, kind, data):
    state, header = read_state(saved[kind])
    state = data.draw(st.one_of(st.just(state), changed(state)))
    header = data.draw(st.one_of(st.just(header), changed(header)))
    path = place(saved[kind], tmp_path)
    with contextlib.suppress(ReservoirError):  # a header that is no plain JSON
        write_state(path, state, header)
        use(kind, path)


@pytest.mark.parametrize("images", [None, -1, "6"])
def test_a_header_without_a_count_is_refused(saved, tmp_path, images):
    state, header = read_state(saved["oracle"])
    path = write_state(place(saved["oracle"], tmp_path), state, {**header, "images": images})
    with (
        RunSaver(tmp_path / "run", str(path)) as saver,
        pytest.raises(ReservoirError, match=r"not arranged as the state of a run .*--overwrite"),
    ):
        saver.begin(IDENTITY)


@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_damaged_states(saved, tmp_path, kind, data):
    path = place(saved[kind], tmp_path)
    path.write_bytes(data.draw(damaged(saved[kind].read_bytes())))
    use(kind, path)
