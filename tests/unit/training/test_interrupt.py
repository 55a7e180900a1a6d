"""Stop requests: the first signal requests a stop, the second stops at once, and handlers are restored."""

import os
import signal
import threading

import pytest

from calque.training.interrupt import SIGNALS, stop_request


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_requests_a_stop_and_the_second_calls_the_previous_handler(number: int) -> None:
    messages: list[str] = []
    received: list[int] = []
    before = signal.signal(number, lambda which, _frame: received.append(which))
    try:
        with stop_request(lambda: messages.append("stopping")) as requested:
            assert not requested()
            os.kill(os.getpid(), number)
            assert requested()
            assert (messages, received) == (["stopping"], [])
            os.kill(os.getpid(), number)
            assert (messages, received) == (["stopping"], [number])
    finally:
        signal.signal(number, before)


def test_a_closed_terminal_may_send_sighup_twice() -> None:
    """The shell sends it, and then the kernel: the second one must not end the save."""
    messages: list[str] = []
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with stop_request(lambda: messages.append("stopping")) as requested:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGHUP)
                assert requested()
            assert messages == ["stopping"]
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_ignored_sighup_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_request(lambda: None) as requested:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not requested()
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_an_announcement_that_fails_does_not_prevent_saving() -> None:
    def closed() -> None:
        raise BrokenPipeError

    with stop_request(closed) as requested:
        os.kill(os.getpid(), signal.SIGTERM)
        assert requested()


def test_after_the_first_ctrl_c_the_second_raises() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), stop_request(lambda: None):
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_handlers_are_restored_also_after_an_error() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with pytest.raises(ZeroDivisionError), stop_request(lambda: None):
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in SIGNALS] == before


def test_outside_the_main_thread_a_stop_is_never_requested() -> None:
    answers: list[bool] = []

    def work() -> None:
        with stop_request(lambda: None) as requested:
            answers.append(requested())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answers == [False]
