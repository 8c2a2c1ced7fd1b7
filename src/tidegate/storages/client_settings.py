"""How another client in this process reaches a storage: the settings by which it does so as tidegate does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidegate.extras import Extra, require
from tidegate.storages.schemes import Folder, Scheme, Where


def client_settings(where: Where) -> dict[str, str]:
    """Endpoint, region and credentials for this folder's storage, by its own names; {} where none are needed.

    The credentials are secret, and those of this moment: for one use, never to be kept or shown.
    """
    settings = _SETTINGS.get(Folder.of(where).scheme)
    return {} if settings is None else settings()


def _s3() -> dict[str, str]:
    require(Extra.S3)
    from tidegate.storages.s3.connection import connection

    return connection().client_settings()


_SETTINGS: Mapping[Scheme, Callable[[], dict[str, str]]] = {Scheme.S3: _s3}
