import hashlib

from ccc_files import offsets, sample_files, write_shard

from mmseg_reservoir.datasets.check.file_facts import examine
from mmseg_reservoir.datasets.shards import tar_fault


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
