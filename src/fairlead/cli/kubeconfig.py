"""`fairlead kubeconfig`: the way into a cluster of this machine, for its administrator or for a user made for it."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec.structs import replace

from fairlead.api.names import dns1123_label
from fairlead.api.users import User
from fairlead.cli.clusters import LocalCluster, chosen, which_cluster
from fairlead.cli.failures import WrongUsage, parsing
from fairlead.client.kubeconfig import Access, load, render
from fairlead.golang.durations import parse_seconds
from fairlead.runtime.identity import Identity
from fairlead.runtime.loops import run
from fairlead.server.auth.certificates import Pki
from fairlead.store.directory import credentials_in


@click.command(short_help="The way into a cluster of this machine, for somebody else.")
@which_cluster
@click.option("--user", metavar="NAME", help="Who it is for.  [default: the administrator]")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the user; may be repeated.")
@click.option("--namespace", default="default", show_default=True, help="The namespace of the context.")
@click.option("--duration", default="8760h", show_default=True, help="How long the user's certificate is good.")
@click.option("--token", is_flag=True, help="With the administrator's token instead of a certificate.")
def kubeconfig(
    data_dir: Path | None,
    name: str | None,
    user: str | None,
    groups: tuple[str, ...],
    namespace: str,
    duration: str,
    token: bool,
) -> None:
    """Print a kubeconfig for the cluster in DATA-DIR, or for the one of that name, whether it runs or not.

    With --user, it holds a new key and a client certificate by which the API server knows that user, without any
    rights until a role gives them some. Whoever has the file is the user; nothing takes it back before its time.

    \b
    Example:
      fairlead kubeconfig --user dev --namespace development > dev.kubeconfig
      fairlead kubectl create rolebinding dev --clusterrole=edit --user=dev -n development
      kubectl --kubeconfig dev.kubeconfig get pods
    """
    with parsing():
        cluster = chosen(data_dir, name)
        if faults := dns1123_label(namespace):
            raise WrongUsage(f"--namespace {namespace}: {faults[0]}")
        if user == "" or "" in groups:  # somebody's empty variable is not the administrator
            raise WrongUsage("--user and --group take names, which are not empty")
        if (groups or token) and bool(user) == token:
            raise WrongUsage("--group says something about a --user" if groups else "--token is the administrator's")
        seconds = _seconds(duration)
        if not cluster.kubeconfig.exists():
            raise WrongUsage(f"there is no cluster {cluster.title}; fairlead up makes one")
        access = replace(load(cluster.kubeconfig, cluster.context), namespace=namespace)
    pki = Pki(credentials_in(cluster.data_dir))
    if not user:
        click.echo(render(_with_token(access, pki) if token else access, name=cluster.context), nl=False)
        return
    with parsing():
        made = run(_identity(pki, User(user, groups), seconds))
    access = replace(access, token="", client_certificate=made.certificate, client_key=made.key)
    click.echo(render(access, name=_context(user, cluster), user_name=user), nl=False)


async def _identity(pki: Pki, user: User, seconds: float) -> Identity:
    return pki.authority.identify(user, seconds)


def _with_token(access: Access, pki: Pki) -> Access:
    return replace(access, token=pki.admin_token.read_text().strip(), client_certificate=None, client_key=None)


def _context(user: str, cluster: LocalCluster) -> str:
    return f"{user}@{cluster.context}"


def _seconds(duration: str) -> float:
    try:
        seconds = parse_seconds(duration)
    except ValueError as error:
        raise WrongUsage(f"--duration: {error}") from None
    if not 600 <= seconds <= 10 * 8760 * 3600:
        raise WrongUsage(f"--duration {duration}: from 10m to 87600h")
    return seconds
