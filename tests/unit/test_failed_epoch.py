"""Where in a user's own code an exception was raised, as Spark's text of it tells."""

from __future__ import annotations

import pytest

from tidegate import __file__ as package
from tidegate.spark.failed_epoch import line_of

SPARKS = '  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 3700, in main\n    process()\n'
OURS = f'  File "{package}", line 7, in write\n'
LIBRARYS = f'  File "{pytest.__file__}", line 3, in deep\n'


@pytest.mark.parametrize(
    ("trace", "found"),
    [
        ('  File "/jobs/app.py", line 12, in share\n    return 1 // n\n', "line 12 of /jobs/app.py, in share"),
        (f'  File "app.py", line 9, in f\n{LIBRARYS}', "line 9 of app.py, in f"),
        ('  File "<stdin>", line 1, in <lambda>\n', ""),
        ("", ""),
        (OURS, ""),
    ],
    ids=["function", "called a library", "no file", "none", "tidegate itself"],
)
def test_the_innermost_line_of_the_user_s_own_is_named(trace: str, found: str):
    text = f"Job aborted.\nTraceback (most recent call last):\n{SPARKS}{trace}ZeroDivisionError: division by zero\n"
    assert line_of(RuntimeError(text)) == found
