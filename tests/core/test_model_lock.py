import copy
import pickle
from threading import Thread

import pytest

from mmseg_reservoir.core.model_lock import ModelLock


def test_a_thread_waits_for_another_one_and_not_for_itself():
    lock, done = ModelLock(), []

    def work():
        with lock:
            done.append(True)

    thread = Thread(target=work)
    with lock, lock:
        thread.start()
        thread.join(0.05)
        assert not done
    thread.join(10)
    assert done


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda lock: pickle.loads(pickle.dumps(lock))])
def test_a_copy_is_a_lock_of_its_own(copied):
    lock, done = ModelLock(), []
    other = copied(lock)

    def work():
        with other:
            done.append(True)

    with lock:
        thread = Thread(target=work)
        thread.start()
        thread.join(10)
    assert done
