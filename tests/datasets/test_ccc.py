import hashlib
import json
import tarfile

import pytest
from ccc_files import offsets, sample_files, write_run, write_shard
from image_files import values

from mmseg_reservoir.cls.streams import build_stream
from mmseg_reservoir.datasets import CCC, build_dataset
from mmseg_reservoir.datasets.ccc import tar_fault
from mmseg_reservoir.datasets.check.file_facts import examine
from mmseg_reservoir.errors import ReservoirError

RUN = "baseline_20_transition+speed_1000_seed_43"


@pytest.fixture
def root(tmp_path):
    write_run(tmp_path / RUN)
    return tmp_path


def make(root, **options):
    return build_dataset(dict(type="ccc", root=root, crop=8, **options))


def test_samples_come_in_the_order_of_the_shards(root):
    samples = list(make(root))
    assert [sample.label for sample in samples] == list(range(24))
    assert values([sample.image for sample in samples]) == [10 * i for i in range(24)]
    assert {sample.domain for sample in samples[:12]} == {"fog+snow"}
    assert {sample.domain for sample in samples[12:]} == {"snow+jpeg"}


def test_unpacked_shards_have_the_same_order(root):
    before = [sample.label for sample in make(root)]
    for path in sorted((root / RUN).glob("*.tar")):
        with tarfile.open(path) as archive:
            archive.extractall(path.with_suffix(""), filter="data")
        path.unlink()
    assert [sample.label for sample in make(root)] == before  # sample_10 is not the third


def test_batches_go_across_shards(root):
    stream = build_stream(dict(type="ccc", batch_size=5, interval=2), make(root))
    batches = list(stream)
    assert [batch.labels.tolist() for batch in batches][2] == [10, 11, 12, 13, 14]
    assert [len(batch.labels) for batch in batches] == [5, 5, 5, 5, 4]
    assert [batch.round for batch in batches] == [1, 1, 2, 2, 3]
    assert [batch.index for batch in batches] == [0, 1, 2, 3, 4]
    assert batches[2].domain == "fog+snow"
    assert batches[0].images.shape == (5, 3, 8, 8)
    short = build_stream(dict(type="ccc", batch_size=5, limit=2), make(root))
    assert [batch.labels.tolist() for batch in short] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_the_record(root):
    stream = build_stream(dict(type="ccc"), make(root))
    record = stream.record()
    assert json.loads(json.dumps(record)) == record
    assert (record["kind"], record["run"], record["shards"]) == ("ccc", RUN, 2)
    write_shard(root / RUN / "serial_00002.tar", sample_files(0, 0, 0))
    longer = build_stream(dict(type="ccc"), make(root)).record()
    assert longer["order"] != record["order"]


def test_the_run_is_found_or_those_that_are_there_are_named(root):
    assert CCC(root / RUN, baseline=0).folder.name == RUN
    with pytest.raises(ReservoirError, match=r"no run with baseline 40.*it has baseline_20_tra"):
        make(root, baseline=40)
    with pytest.raises(ReservoirError, match="it has no run of CCC"):
        make(root / "absent")
    (root / "baseline_0.0_transition_speed_5000_seed_45").mkdir()
    with pytest.raises(ReservoirError, match=r"seed_45 has no serial_00000.tar"):
        make(root, baseline=0, speed=5000, run_seed=45)


def test_a_gap_is_an_error(root):
    write_shard(root / RUN / "serial_00003.tar", sample_files(0, 0, 0))
    with pytest.raises(ReservoirError, match="up to serial_00003, but no serial_00002"):
        make(root)


def test_damage_is_an_error(root):
    shard = root / RUN / "serial_00001.tar"
    whole = shard.read_bytes()
    # In the middle of a picture, and between two samples, where nothing else would tell.
    for length in (2000, offsets(shard)[3]):
        shard.write_bytes(whole[:length])
        with pytest.raises(ReservoirError, match=r"serial_00001.tar is damaged"):
            list(make(root))
    write_shard(shard, {"sample_0.input.jpg": b"x"})
    with pytest.raises(ReservoirError, match=r"has no sample_0.output.cls: generate or download"):
        list(make(root))
    write_shard(shard, sample_files(0, 0, "cat"))
    with pytest.raises(ReservoirError, match="sample_0 has the label b'cat'"):
        list(make(root))
    write_shard(shard, {**sample_files(0, 0, 0), "sample_0.input.jpg": b"x"})
    with pytest.raises(ReservoirError, match="sample_0 cannot be decoded"):
        list(make(root))


def test_a_good_shard(tmp_path):
    path = tmp_path / "serial_00000.tar"
    write_shard(path, {**sample_files(0, 9, 3), **sample_files(1, 9, 4)})
    facts = examine(path, is_label=False)
    assert (facts.fault, facts.size) == (None, path.stat().st_size)
    assert facts.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_shards_that_break_off_are_found_wherever_they_do(tmp_path):
    path = tmp_path / "serial_00000.tar"
    write_shard(path, {**sample_files(0, 9, 3), **sample_files(1, 9, 4)})
    whole = path.read_bytes()
    starts = offsets(path)
    for length in (100, starts[1] + 20, starts[2] - 5, starts[3], starts[4]):
        path.write_bytes(whole[:length])
        fault = examine(path, is_label=False).fault
        assert fault is not None, length
        assert "truncated" in fault or "no whole archive" in fault


def test_samples_must_be_complete(tmp_path):
    path = tmp_path / "serial_00000.tar"
    files = sample_files(7, 9, 3)
    del files["sample_7.output.cls"]
    write_shard(path, files)
    assert tar_fault(path) == "has no sample_7.output.cls"
    write_shard(path, {})
    assert tar_fault(path) == "holds no samples"


def test_empty_and_absent_files(tmp_path):
    path = tmp_path / "serial_00000.tar"
    path.touch()
    assert examine(path, is_label=False).size == 0
    assert examine(tmp_path / "gone.tar", is_label=False).fault.startswith("cannot be opened")
