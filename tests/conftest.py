"""Settings for all tests, and the servers that they share: each starts when the first test asks for it."""

from hypothesis import settings

from tests.support.hdfs import hdfs
from tests.support.jvm import quick_jvms
from tests.support.s3 import s3, s3_server

__all__ = ["hdfs", "s3", "s3_server"]

settings.register_profile("tidegate", deadline=None)  # a busy machine is no failure
settings.load_profile("tidegate")
quick_jvms()
