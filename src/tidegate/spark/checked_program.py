"""`python -m tidegate.spark.checked_program APP ARGS...`: checks if the job of a user's program could start.

Only `jobs.app_check` starts it. It reads the violations from the standard error.
"""

from __future__ import annotations

import os
import sys
import traceback

from tidegate.core.errors import TidegateError
from tidegate.core.telling import ToldStep, told
from tidegate.logs.last_word import is_verbose
from tidegate.operate.app_check import CHECK_WORD
from tidegate.spark.program import FAILED, read_program, run_program


def main(app: str, arguments: list[str]) -> int:
    """Run the program up to the start of its job. Reports the errors of that start; raises the program's own errors."""
    try:
        run_program(read_program(app), app, arguments)
    except Exception as error:
        refused = _refused_in(error)
        if refused is None:
            raise
        if is_verbose(os.environ):
            traceback.print_exception(error)
        print(told(refused, ToldStep.START, os.environ[CHECK_WORD]), file=sys.stderr, flush=True)
        return FAILED
    return 0


def _refused_in(error: BaseException | None) -> TidegateError | None:
    """The error itself, or the error that the program has wrapped."""
    while error is not None and not isinstance(error, TidegateError):
        error = error.__cause__ or error.__context__
    return error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
