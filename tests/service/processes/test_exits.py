"""How an ended child is told of: real exit codes, real signals, real output."""

from __future__ import annotations

import asyncio
import sys

import pytest

from service.processes.exits import MAX_TAIL_BYTES, ErrorTail, describe_exit


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-11, "was ended by SIGSEGV"),
        (-9, "was ended by SIGKILL (the system may be out of memory)"),
        (-200, "was ended by signal 200"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals of this kind")
def test_an_exit_code_is_told_in_words(code: int, words: str) -> None:
    assert describe_exit(code) == words


def test_the_end_of_what_a_child_wrote_is_quoted() -> None:
    script = f"import sys; sys.stderr.write('x' * {10 * MAX_TAIL_BYTES} + ' out of luck')"

    async def run() -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        tail = ErrorTail(process.stderr)
        await process.wait()
        await tail.wait()
        return tail.quote()

    quote = asyncio.run(run())
    assert quote.startswith("; its last words: xxx")
    assert quote.endswith("x out of luck")
    assert len(quote) <= MAX_TAIL_BYTES + 30


def test_of_a_traceback_only_the_last_line_is_quoted_and_all_of_it_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import json; json.loads('[')", stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        tail = ErrorTail(process.stderr)
        await process.wait()
        await tail.wait()
        return tail.quote()

    quote = asyncio.run(run())
    assert quote.startswith("; its last words: json.decoder.JSONDecodeError: ")
    assert "File" not in quote
    (record,) = [record for record in caplog.records if record.message == "child.traceback"]
    assert "json/__init__.py" in record.__dict__["fields"]["text"].replace("\\", "/")
