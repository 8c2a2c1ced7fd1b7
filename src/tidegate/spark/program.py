"""`python -m tidegate.spark.program APP ARGS...`: a user's program as the driver of a supervised job.

Only a supervisor starts it. It runs the file as `__main__`, ensures that one job is started, and reports its end to the
supervisor.
"""

from __future__ import annotations

import os
import signal
import sys
import tokenize
import traceback
from pathlib import Path
from types import CodeType, ModuleType, TracebackType

from tidegate.core.errors import Code, TidegateError
from tidegate.logs.last_word import is_verbose
from tidegate.logs.writing import log_failure, set_up_below_run
from tidegate.spark.get_ahead import get_ahead
from tidegate.spark.supervised import Role, Supervised, supervise
from tidegate.storages.schemes import Folder
from tidegate.supervise.head_start import HEAD_START
from tidegate.supervise.line import line_to_supervisor
from tidegate.supervise.standby import STANDBY

FAILED = 1


def main(app: str, arguments: list[str]) -> int:
    """Run the program below a supervisor. Returns the exit code of this process, which only shows a failure."""
    role = Role.DRIVER if os.environ.pop(STANDBY, None) is None else Role.STANDBY
    head_start = os.environ.pop(HEAD_START, None)
    return drive(Supervised(line_to_supervisor(os.environ), role), app, arguments, head_start)


def drive(supervised: Supervised, app: str, arguments: list[str], head_start: str | None = None) -> int:
    """Run the program as the driver of a job, and report its end. Returns the exit code of this process.

    `head_start`: the folder of the job whose JVM starts before the turn of this process comes.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have set it to ignored
    error, code = None, 0
    try:
        set_up_below_run(os.environ)
        supervise(supervised)
        supervised.listen()
        if head_start is not None:
            get_ahead(Folder.of(head_start))
            supervised.moves("its JVM, started")
            supervised.await_turn()
        program = read_program(app)
        try:
            run_program(program, app, arguments)
            supervised.wait()
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a stop during the last report must not lose it
    except TidegateError as failure:
        error = failure
        if is_verbose(os.environ):
            log_failure(failure)
    except SystemExit as ended:
        code = _code_of(ended)
    except KeyboardInterrupt:
        if not supervised.stopping:
            code = _INTERRUPTED
    except BaseException as failure:  # noqa: BLE001 (shown with its traceback, and told to the supervisor)
        error = _program_failed(app, failure)
    supervised.ended(error, code)
    return code if error is None else FAILED


def read_program(app: str) -> CodeType:
    """The program, compiled. Raises PROGRAM_UNREADABLE."""
    try:
        with tokenize.open(app) as file:
            text = file.read()
        return compile(text, app, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise TidegateError(
            Code.PROGRAM_UNREADABLE,
            expected="the file of a Python program",
            found=f"{type(error).__name__}: {getattr(error, 'msg', None) or getattr(error, 'strerror', None) or error}",
            where=f"{app}{line}",
        ) from error


_INTERRUPTED = 130


def run_program(program: CodeType, app: str, arguments: list[str]) -> None:
    """Like `python APP ARGS`: the file is `__main__`, and its folder comes first in the search for modules."""
    module = ModuleType("__main__")
    module.__dict__.update(__file__=app, __builtins__=__builtins__)
    sys.modules["__main__"] = module
    sys.argv = [app, *arguments]
    folder = str(Path(app).resolve().parent)
    if getattr(sys.flags, "safe_path", False):  # of Python 3.11: nothing stands before the standard library
        sys.path.insert(0, folder)
    else:
        sys.path[0] = folder
    exec(program, module.__dict__)


def _code_of(ended: SystemExit) -> int:
    """The exit code that Python would use: a text is shown and means 1."""
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    print(ended.code, file=sys.stderr)
    return FAILED


def _program_failed(app: str, error: BaseException) -> TidegateError:
    """The error for an exception of the program itself. Its traceback is written to the log."""
    trace = _of_program(error.__traceback__)
    log_failure(error.with_traceback(trace))
    last = traceback.extract_tb(trace)[-1:]
    line = f", line {last[0].lineno} of {last[0].filename}" if last else ""
    failed = TidegateError(
        Code.PROGRAM_FAILED,
        expected="a program that runs",
        found="".join(traceback.format_exception_only(type(error), error)).strip()[:2_000],
        where=f"{app}{line}",
    )
    failed.__cause__ = error
    return failed


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this file."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
