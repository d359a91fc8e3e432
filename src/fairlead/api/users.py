"""Who makes a request, as authentication tells it (k8s.io/apiserver, authentication/user; serviceaccount/util.go)."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from fairlead.api import names

#: Groups with a meaning of their own.
MASTERS: Final = "system:masters"  # may do everything, whatever authorization says
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
NODES: Final = "system:nodes"
SERVICE_ACCOUNTS: Final = "system:serviceaccounts"
ANONYMOUS: Final = "system:anonymous"

#: The extra value that names the node to which a service account's token is bound.
NODE_OF_ACCOUNT: Final = "authentication.kubernetes.io/node-name"
#: The extra value by which logs tell with what somebody has come in.
CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"

_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_NODE_PREFIX: Final = "system:node:"


class User(msgspec.Struct, frozen=True):
    """Who asks. `extra` is sorted by key, so that users who are the same are equal."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def extra_value(self, key: str) -> str:
        """The one value of that key; "" if it has none or several."""
        values = next((values for name, values in self.extra if name == key), ())
        return values[0] if len(values) == 1 else ""


#: Whoever shows nothing, where that is enough.
ANONYMOUS_USER: Final = User(ANONYMOUS, (UNAUTHENTICATED,))


def authenticated(user: User) -> User:
    """The same user in the group of everybody who is known."""
    return user if AUTHENTICATED in user.groups else replace(user, groups=(*user.groups, AUTHENTICATED))


class AccountName(msgspec.Struct, frozen=True):
    """A service account, by namespace and name."""

    namespace: str
    name: str

    @property
    def user_name(self) -> str:
        return f"{_ACCOUNT_PREFIX}{self.namespace}:{self.name}"

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of every service account of that namespace."""
        return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{self.namespace}")


def account_of(user_name: str) -> AccountName | None:
    """The service account that goes by that user name; None if it is no service account's."""
    if not user_name.startswith(_ACCOUNT_PREFIX):
        return None
    namespace, _, name = user_name.removeprefix(_ACCOUNT_PREFIX).partition(":")
    if names.dns1123_label(namespace) or names.dns1123_subdomain(name):
        return None
    return AccountName(namespace, name)


def node_of(user_name: str) -> str:
    """The node that goes by that user name; "" if it is no node's."""
    name = user_name.removeprefix(_NODE_PREFIX)
    return "" if name == user_name or names.dns1123_subdomain(name) else name


def node_identity(user: User) -> str | None:
    """The node that the user is (pkg/auth/nodeidentifier): "" if it does not say which, None if it is no node."""
    name = user.name
    return name[len(_NODE_PREFIX) :] if name.startswith(_NODE_PREFIX) and NODES in user.groups else None


def node_user(name: str) -> User:
    """As whom the agent of a node writes."""
    return authenticated(User(f"{_NODE_PREFIX}{name}", (NODES,)))


_MASTERS: Final = (MASTERS,)
#: The administrator of a cluster, as its kubeconfig makes them known.
ADMIN: Final = User("kubernetes-admin", _MASTERS, "kubernetes-admin")
#: Fairlead itself, for whatever has no component of its own; nobody comes in through a listener as this.
INTERNAL_USER: Final = User("system:admin", _MASTERS)
#: The components that run beside the API server in one process, by the names that kube-apiserver's roles know.
SCHEDULER_USER: Final = authenticated(User("system:kube-scheduler"))
CONTROLLERS_USER: Final = authenticated(User("system:kube-controller-manager"))
#: Fairlead's own, with roles of their own: the arbitrator, whoever sets up the machines of simulated nodes, the
#: dashboard, and the network of real nodes and their folders for claims.
ARBITRATOR_USER: Final = authenticated(User("system:fairlead:arbitrator"))
FLEET_USER: Final = authenticated(User("system:fairlead:fleet"))
DASHBOARD_USER: Final = authenticated(User("system:fairlead:dashboard"))
NETWORK_USER: Final = authenticated(User("system:fairlead:network"))
LOCAL_PATH_USER: Final = authenticated(User("system:fairlead:local-path"))


def controller_user(account: str) -> User:
    """As whom a controller writes: a service account of kube-system, or kube-controller-manager itself without one.

    As with `--use-service-account-credentials` of kube-controller-manager.
    """
    if not account:
        return CONTROLLERS_USER
    name = AccountName("kube-system", account)
    return authenticated(User(name.user_name, name.groups))
