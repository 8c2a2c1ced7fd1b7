"""The user of this process: it needs a name. Without one Java's login fails with an unclear error."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping

from tidegate.core.errors import Code, TidegateError


def hadoop_user(environment: Mapping[str, str]) -> str:
    """The name by which Hadoop knows this process, where no Kerberos tells it another one. Raises USER_UNNAMED."""
    return environment.get("HADOOP_USER_NAME") or user_name()


def user_name() -> str:
    """The name of the user of this process. Raises USER_UNNAMED, for example in a container that was started with a
    numeric user."""
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        raise TidegateError(
            Code.USER_UNNAMED,
            expected="a user id with a name, which Java's login requires (Spark and Hadoop do not start without it)",
            found=f"user id {number}, which has no entry in /etc/passwd; HADOOP_USER_NAME does not help",
            where="the user of this process",
            next_step=f"add the entry to the image: echo 'job:x:{number}:{os.getgid()}::/tmp:/sbin/nologin' >>"
            " /etc/passwd, or mount an /etc/passwd that has it, or start the container with a user that it knows",
        ) from None
