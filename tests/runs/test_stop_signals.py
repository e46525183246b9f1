import os
import signal
import threading

import pytest

from mmseg_reservoir.runs.stop_signals import StopSignals, stop_code


def handlers():
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_the_first_signal_waits_and_the_second_does_not(number, error):
    before = handlers()
    with StopSignals() as signals:
        signals.obey()
        signal.raise_signal(number)
        assert signals.caught == number
        with pytest.raises(error) as raised:
            signals.obey()
        with pytest.raises(error):
            signal.raise_signal(number)
    assert handlers() == before
    if error is SystemExit:
        assert raised.value.code == 143


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_at_once_the_first_signal_stops_both_alike(number, code):
    before = handlers()
    with (
        StopSignals(at_once=True),
        pytest.raises((KeyboardInterrupt, SystemExit)) as raised,
    ):
        signal.raise_signal(number)
    assert stop_code(raised.value) == code
    assert handlers() == before


def test_what_waits_is_woken_once():
    woken = []
    with StopSignals(wake=lambda: woken.append(True)):
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(SystemExit):
            signal.raise_signal(signal.SIGTERM)
    assert woken == [True]


def test_other_exits_are_no_stop():
    assert [stop_code(error) for error in (SystemExit(2), SystemExit("no"), OSError())] == [
        None
    ] * 3


def test_elsewhere_than_in_the_main_thread_nothing_changes():
    before, seen = handlers(), []

    def use():
        with StopSignals() as signals:
            seen.append((handlers(), signals.caught))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [(before, None)]


def test_a_forked_worker_outlives_ctrl_c_and_obeys_sigterm():
    with StopSignals() as signals:
        child = os.fork()
        if child == 0:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == -signal.SIGTERM
        assert signals.caught is None
