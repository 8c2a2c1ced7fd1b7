"""Settings for all tests."""

from hypothesis import settings

from tests.support.jvm import quick_jvms

settings.register_profile("tidegate", deadline=None)  # a busy machine is no failure
settings.load_profile("tidegate")
quick_jvms()
