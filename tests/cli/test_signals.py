from __future__ import annotations

import signal

import pytest

from cli.signals import interrupts_deferred


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_waits_for_the_end_of_the_block(number: signal.Signals) -> None:
    noted = []

    def make_and_note() -> None:
        with interrupts_deferred():
            signal.raise_signal(number)
            noted.append("made and noted")

    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        make_and_note()
    signal.signal(signal.SIGTERM, before)
    assert noted == ["made and noted"]


def test_the_handlers_from_before_are_back_afterwards() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with interrupts_deferred():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
