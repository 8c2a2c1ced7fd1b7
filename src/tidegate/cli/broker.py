"""`tidegate broker`: a Kafka broker for experiments: start it in the background, stop it, show its status."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidegate.cli.common import Printed, printed_as
from tidegate.core.errors import TidegateError
from tidegate.testing.kafka import DEFAULT_VERSION, Broker, BrokerState, Status, status
from tidegate.testing.kafka.jars import require_version

NOT_RUNNING = 1

broker = typer.Typer(
    help="A Kafka broker for experiments: on this machine only, in a folder, in the background.",
    no_args_is_help=True,
)

BrokerFolder = Annotated[Path, typer.Option(file_okay=False, help="The folder of its data, settings, log and status.")]
BrokerJson = Annotated[bool, typer.Option("--json", help="Show its status as one JSON object.")]
FOLDER = Path(".tidegate-broker")


def _version(wanted: str | None) -> str | None:
    """An invalid version is wrong usage."""
    if wanted is not None:
        try:
            require_version(wanted)
        except TidegateError as error:
            raise typer.BadParameter(f"expected {error.expected}") from None
    return wanted


@broker.command()
def start(
    folder: BrokerFolder = FOLDER,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Its port on 127.0.0.1; 0: any free port.")] = 9092,
    version: Annotated[
        str | None,
        typer.Option(callback=_version, metavar="X.Y.Z", help="Kafka's version.", show_default=DEFAULT_VERSION),
    ] = None,
    json: BrokerJson = False,
) -> None:
    """Start a broker and wait until it answers.

    It needs Java 17 and keeps running after this command. Its data stay in the folder, for the next start.
    Kafka's jars are fetched once for each version, through Maven where it is installed, else through the Ivy that
    comes with Spark, into the user's cache folder. Topics are not created by themselves.

    Examples:

    - `tidegate broker start`

    - `tidegate broker start --folder kafka-3.9 --port 0 --version 3.9.1 --json`
    """
    Broker.start(folder, version=version, port=port, tell=_tell)
    _show(status(folder), printed_as(json))


@broker.command()
def stop(folder: BrokerFolder = FOLDER, json: BrokerJson = False) -> None:
    """Stop the broker of a folder; its data stay.

    Example:

    - `tidegate broker stop --folder kafka-3.9`
    """
    Broker.find_running(folder).stop()
    _show(status(folder), printed_as(json))


@broker.command(name="status")
def show_status(folder: BrokerFolder = FOLDER, json: BrokerJson = False) -> None:
    """Show the status of the broker in a folder. Exit code 0 only if it runs and answers, otherwise 1.

    Example:

    - `tidegate broker status --json`
    """
    seen = status(folder)
    _show(seen, printed_as(json))
    if seen.state is not BrokerState.RUNNING:
        raise typer.Exit(NOT_RUNNING)


def _tell(line: str) -> None:
    typer.echo(line, err=True)


def _show(seen: Status, shown: Printed) -> None:
    if shown is Printed.JSON:
        typer.echo(msgspec.json.encode(seen).decode())
        return
    typer.echo(f"{seen.state.value}: {seen.meaning} ({seen.folder})")
    if seen.nodes:
        typer.echo(f"Kafka {seen.version}, bootstrap servers {seen.servers}")
    for node in seen.nodes:
        process = "no process" if node.pid is None else f"process {node.pid}"
        typer.echo(f"  {node.number}: {node.state.value}, {node.server}, {process}, log {node.log}")
