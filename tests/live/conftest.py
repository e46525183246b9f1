import time

import pytest
from live_stream import StepStream

from mmseg_reservoir.live import StreamWorker


@pytest.fixture
def stream():
    return StepStream()


@pytest.fixture
def worker(stream, tmp_path):
    worker = StreamWorker(stream, tmp_path / "saved")
    worker.start()
    yield worker
    stream.end()
    worker.stop(timeout=30)


@pytest.fixture
def until():
    """Wait for what another thread does."""

    def wait(condition):
        for _ in range(3000):
            if condition():
                return
            time.sleep(0.01)
        raise AssertionError("it never happened")

    return wait
