"""Stop requests: the first signal asks, the second acts, and everybody's handlers come back."""

import os
import signal
import threading

import pytest

from calque.training.interrupt import SIGNALS, stop_request


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_and_the_second_is_the_old_one(number: int) -> None:
    said: list[str] = []
    old: list[int] = []
    before = signal.signal(number, lambda which, _frame: old.append(which))
    try:
        with stop_request(lambda: said.append("stopping")) as asked:
            assert not asked()
            os.kill(os.getpid(), number)
            assert asked()
            assert (said, old) == (["stopping"], [])
            os.kill(os.getpid(), number)
            assert (said, old) == (["stopping"], [number])
    finally:
        signal.signal(number, before)


def test_an_announcement_that_fails_does_not_keep_a_run_from_saving() -> None:
    def closed() -> None:
        raise BrokenPipeError

    with stop_request(closed) as asked:
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked()


def test_after_the_first_ctrl_c_the_second_raises() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), stop_request(lambda: None):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_handlers_are_back_afterwards_also_after_an_error() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(ZeroDivisionError), stop_request(lambda: None):
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_outside_the_main_thread_nothing_is_ever_asked() -> None:
    answers: list[bool] = []

    def work() -> None:
        with stop_request(lambda: None) as asked:
            answers.append(asked())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == [False]
