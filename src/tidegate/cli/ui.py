"""`tidegate ui`: the page of every job of a storage, without a JVM and without the programs."""

from __future__ import annotations

import json
import os
import select
import signal
from typing import Annotated

import typer

from tidegate import operate
from tidegate.cli.common import Dir, Json, Overrides, jobs_folder, print_json, usable_settings
from tidegate.cli.exits import Exit
from tidegate.cli.log_options import LogFormatOption, LogLevelOption
from tidegate.logs.lines import LogFormat
from tidegate.logs.writing import LogChoice, LogLevel, set_up
from tidegate.settings.given import OVERRIDES_VARIABLE, handed_on
from tidegate.supervise.signals import Signals


def ui(
    dir: Dir = None,
    host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="The address. Default: `ui.host`, which is 127.0.0.1: this machine only."),
    ] = None,
    port: Annotated[
        str | None, typer.Option(metavar="PORT", help="The port; 0: any free one. Default: `ui.port`, which is 8081.")
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file with the token. Default: `ui.token_file`, else TIDEGATE_UI_TOKEN."),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="The certificate, in PEM: `ui.tls_cert`.")
    ] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its private key, in PEM: `ui.tls_key`.")] = None,
    proxy: Annotated[
        str | None,
        typer.Option(metavar="ORIGIN", help="Where a proxy with TLS shows the page: `ui.proxy`, https://host[:port]."),
    ] = None,
    programs: Annotated[
        list[str] | None,
        typer.Option(metavar="FOLDER", help="A folder whose programs the page may start: `ui.programs`. Repeatable."),
    ] = None,
    open: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    define: Overrides = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.WARNING,
    as_json: Json = False,
) -> None:
    """Serve a page and a REST interface for all jobs of a folder, until Ctrl-C or SIGTERM.

    Only this machine reaches it, and everybody on this machine may look. Actions need a token. It is printed at the
    start, unless a file or TIDEGATE_UI_TOKEN has one. At another address the page needs TLS (`--tls-cert`), or the
    origin of a proxy that has it (`--proxy`), and views need the token, too. Each action is a line of the log, with the
    address of its caller.

    Needs the extra: `pip install 'tidegate[ui]'`.

    Examples:

    - `tidegate ui`

    - `tidegate ui --dir /data/jobs --port 9000 --open`

    - `tidegate ui --host 0.0.0.0 --tls-cert page.pem --tls-key page.key --token-file page.token`

    - `tidegate ui --proxy https://jobs.example.com --token-file page.token`

    - `tidegate ui --programs /srv/programs`
    """
    one = {
        "ui.host": host,
        "ui.port": port,
        "ui.token_file": token_file,
        "ui.tls_cert": tls_cert,
        "ui.tls_key": tls_key,
        "ui.proxy": proxy,
        "ui.programs": ":".join(programs) if programs else None,
    }
    given = [f"{name}={value}" for name, value in one.items() if value is not None]
    overrides = [*handed_on(os.environ), *(define or []), *given]
    settings = usable_settings({**os.environ, OVERRIDES_VARIABLE: json.dumps(overrides)})
    folder = operate.Folder.of(settings.checkpointing_dir) if dir is None else jobs_folder(dir)
    set_up(LogChoice(log_format, log_level), os.environ)
    from tidegate.web.serving import open_page  # not needed for the help

    with open_page(settings) as page, Signals() as signals:
        page.start(folder)
        if as_json:
            print_json({"url": page.url, "token": page.new_token})
        else:
            typer.echo(page.announced)
        if open:
            typer.launch(page.url)
        while not any(each in _END for each in signals.arrived()):
            if page.wait(0.0):
                raise typer.Exit(Exit.FAILED)
            select.select([signals], [], [], _LOOK_SECONDS)
        page.close()
        page.wait(_END_SECONDS)


_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_SECONDS = 1.0
_END_SECONDS = 5.0
