"""gateway: serves files of logs to Spark, and to other programs without walkeeper's control plane."""

from __future__ import annotations

import signal
import ssl
import threading
from pathlib import Path
from typing import Any

import click

from walkeeper.cli._main import Refusal

LOOK_SECONDS = 1.0


@click.command()
@click.option("--root", required=True, metavar="URI", help="A directory, or the URI of a cluster.")
@click.option(
    "--listen",
    "addresses",
    multiple=True,
    default=["127.0.0.1:4590"],
    show_default=True,
    metavar="ADDRESS",
    help="HOST:PORT, or unix:PATH; may be given several times.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="A file whose first line clients show.",
)
@click.option("--tls-certificate", type=click.Path(exists=True, dir_okay=False), help="PEM, for other machines.")
@click.option("--tls-key", type=click.Path(exists=True, dir_okay=False), help="PEM.")
@click.option("--namespace", help="Of a cluster: which namespace.")
def gateway(
    root: str,
    addresses: tuple[str, ...],
    token_file: Path,
    tls_certificate: str | None,
    tls_key: str | None,
    namespace: str | None,
) -> None:
    """Serve checkpoints of Spark, and logs, from ROOT.

    It runs until SIGTERM or Ctrl-C. Several gateways may serve one cluster: any of them can take over from another.
    """
    from walkeeper.gateway import Gateway

    token = token_file.read_text().partition("\n")[0].strip()
    if not token:
        raise Refusal(f"{token_file} is empty: its first line is the token that clients show")
    tls = None
    if tls_certificate is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            tls.load_cert_chain(tls_certificate, tls_key)
        except (OSError, ssl.SSLError) as wrong:
            raise Refusal(f"{tls_certificate} cannot be used: {wrong}") from wrong
    options: dict[str, Any] = {} if namespace is None else {"namespace": namespace}
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        served = Gateway(root, listen=addresses, token=token, tls=tls, **options)
    except OSError as wrong:
        raise Refusal(f"the gateway cannot listen on {', '.join(addresses)}: {wrong}") from wrong
    with served:
        click.echo(f"{root} is served at {', '.join(served.addresses)}")
        while not stop.wait(LOOK_SECONDS):
            if served.closed:
                raise Refusal("the gateway ended by itself; its log says why")
