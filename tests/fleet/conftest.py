import pytest

from mmseg_reservoir.errors import ReservoirError
from mmseg_reservoir.fleet.ray_session import ray_session


@pytest.fixture
def two_workers():
    """Ray on two cores. It gives itself 30 seconds to start, which a busy machine may not have."""
    pytest.importorskip("ray", reason="needs the extra ray")
    session = ray_session(jobs=2)
    try:
        ray = session.__enter__()
    except ReservoirError as error:
        pytest.skip(str(error))
    yield ray
    session.__exit__(None, None, None)
