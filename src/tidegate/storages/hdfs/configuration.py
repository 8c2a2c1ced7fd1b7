"""What Hadoop's configuration says: `core-site.xml` and `hdfs-site.xml` in HADOOP_CONF_DIR, else in
`$HADOOP_HOME/etc/hadoop`, as Spark and `hdfs-native` read them."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.core.errors import Code, TidegateError

NAME_NODE_PORT = 8020
"""The port of a NameNode whose address has none (`dfs.namenode.rpc-address` in Hadoop's hdfs-default.xml)."""


def default_file_system() -> str:
    """`fs.defaultFS`; empty if there is none."""
    return _all_settings().get("fs.defaultFS", "")


def default_authority(scheme: str, uri: str) -> str:
    """The authority of `fs.defaultFS`, for a URI without one. Raises SETTING_VALUE if that has none of this scheme."""
    found = _all_settings().get("fs.defaultFS")
    begin = f"{scheme}://"
    authority = "" if found is None or not found.startswith(begin) else found.removeprefix(begin).partition("/")[0]
    if not authority:
        folder = _folder()
        raise TidegateError(
            Code.SETTING_VALUE,
            expected=f"a URI with a host ({scheme}://host:port/path), or `fs.defaultFS` with one in core-site.xml",
            found="HADOOP_CONF_DIR is not set" if folder is None else f"fs.defaultFS is {found} in {folder}",
            where=uri,
            next_step="write the host into the URI, or set HADOOP_CONF_DIR to the folder with core-site.xml",
        )
    return authority


def name_node_address(authority: str) -> str:
    """The authority as `hdfs-native` needs it: the name of a name service as it is, a host with its port."""
    if ":" in authority or f"{_NAME_NODES}{authority}" in _all_settings():
        return authority
    return f"{authority}:{NAME_NODE_PORT}"


def name_nodes(authority: str) -> int:
    """How many NameNodes the authority stands for; for a mount table, the largest number of one name service."""
    settings = _all_settings()
    found = [value for name, value in settings.items() if name.startswith(_NAME_NODES)]
    if f"{_NAME_NODES}{authority}" in settings:
        found = [settings[f"{_NAME_NODES}{authority}"]]
    elif ":" in authority:
        found = []
    return max((len(value.split(",")) for value in found), default=1)


def name_nodes_from(first: int) -> dict[str, str]:
    """The settings that make a client ask the NameNodes of every name service in turn, the one at this place first."""
    orders = {"dfs.client.failover.random.order": "false"}
    for name, value in _all_settings().items():
        if name.startswith(_NAME_NODES):
            nodes = value.split(",")
            at = first % len(nodes)
            orders[name] = ",".join(nodes[at:] + nodes[:at])
    return orders


_NAME_NODES = "dfs.ha.namenodes."


def _all_settings() -> dict[str, str]:
    folder = _folder()
    if folder is None:
        return {}
    return {**_settings(folder / "core-site.xml"), **_settings(folder / "hdfs-site.xml")}


def _settings(file: Path) -> dict[str, str]:
    from xml.etree import ElementTree

    try:
        root = ElementTree.parse(file).getroot()
    except FileNotFoundError:
        return {}
    except (OSError, ElementTree.ParseError) as error:
        raise TidegateError(
            Code.SETTING_VALUE,
            expected="a configuration of Hadoop in XML",
            found=str(error),
            where=str(file),
            next_step="repair the file, or set HADOOP_CONF_DIR to another folder",
        ) from error
    texts = [(each.findtext("name", ""), each.findtext("value", "")) for each in root.iter("property")]
    return {name.strip(): value.strip() for name, value in texts}


def _folder() -> Path | None:
    if folder := os.environ.get("HADOOP_CONF_DIR"):
        return Path(folder)
    home = os.environ.get("HADOOP_HOME")
    return Path(home, "etc", "hadoop") if home else None
