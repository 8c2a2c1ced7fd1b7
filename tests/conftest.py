"""Settings for all tests."""

from hypothesis import settings

settings.register_profile("tidegate", deadline=None)  # a busy machine is no failure
settings.load_profile("tidegate")
