"""Users of a cluster: certificates, tokens, and what each may do (issue 16, S0-25 to S0-34), with the real kubectl."""

from __future__ import annotations

import base64
import socket
import ssl
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from fairlead.api.objects import Obj
from fairlead.api.users import User
from fairlead.client.kubeconfig import load, render
from fairlead.runtime.authority import Authority, key_pem, new_key
from fairlead.runtime.loops import run
from tests.e2e.helpers.terminal import Terminal
from tests.examples import each_time
from tests.processes import Up, fairlead_up
from tests.server.https_services import Reviewer

FAIRLEAD = f"{sys.executable} -m fairlead"


def user_file(terminal: Terminal, cluster: Up, options: str) -> Path:
    path = terminal.home / f"{len(list(terminal.home.iterdir()))}.kubeconfig"
    terminal.output(f"{FAIRLEAD} kubeconfig --data-dir {cluster.data_dir} {options} > {path}")
    return path


def test_the_administrator_comes_with_a_certificate_or_with_a_token(terminal: Terminal, cluster: Up) -> None:
    access = load(cluster.kubeconfig)
    assert access.client_certificate
    assert not access.token
    token = user_file(terminal, cluster, "--token")
    assert load(token).token
    assert load(token).client_certificate is None
    for path in (cluster.kubeconfig, token):
        shown = terminal.output(f"kubectl --kubeconfig {path} auth whoami")
        assert "kubernetes-admin" in shown
        assert "[system:masters system:authenticated]" in shown


def test_dev_may_nothing_in_production(terminal: Terminal, cluster: Up, namespace: str) -> None:
    """S0-34."""
    dev = user_file(terminal, cluster, f"--user dev --group ops --namespace {namespace}")
    shown = terminal.output(f"kubectl --kubeconfig {dev} auth whoami")
    assert [line.split(maxsplit=1)[1] for line in shown.splitlines()[1:]] == ["dev", "[ops system:authenticated]"]
    terminal.output(f"kubectl create rolebinding dev --clusterrole=edit --user=dev -n {namespace}")
    terminal.output(f"kubectl --kubeconfig {dev} run web --image=web")
    refused = terminal.run(f"kubectl --kubeconfig {dev} run web --image=web -n default")
    assert refused.code == 1
    assert (
        'Error from server (Forbidden): pods is forbidden: User "dev" cannot create resource "pods" in API group "" '
        'in the namespace "default"'
    ) in refused.err
    assert terminal.run(f"kubectl --kubeconfig {dev} auth can-i get nodes").out.strip() == "no"


def test_names_are_as_long_as_kubernetes_lets_them_be(terminal: Terminal, cluster: Up) -> None:
    """X.509 has room for 64 characters: `system:node:` and the name of a machine may have more."""
    name, group = f"system:node:{'n' * 63}", "g" * 300
    access = user_file(terminal, cluster, f"--user {name} --group {group} --namespace default")
    shown = terminal.output(f"kubectl --kubeconfig {access} auth whoami")
    assert [line.split(maxsplit=1)[1] for line in shown.splitlines()[1:]] == [name, f"[{group} system:authenticated]"]


def request_of(terminal: Terminal, name: str, subject: tuple[str, ...], signer: str, options: str = "") -> str:
    """Ask for a certificate of that common name, and organizations; the name of its files, without ending."""
    key, (common_name, *organizations) = new_key(), subject
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    parts += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(parts)).sign(key, hashes.SHA256())
    encoded = base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode()
    terminal.output(
        f"kubectl create -f - {options}",
        f"""apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {{name: {name}}}
spec: {{request: {encoded}, signerName: kubernetes.io/{signer}, usages: [digital signature, client auth]}}
""",
    )
    (terminal.home / f"{name}.key").write_bytes(key_pem(key))
    return f"{terminal.home}/{name}"


def signed(terminal: Terminal, name: str) -> None:
    """Wait for the certificate, and put it beside its key."""
    terminal.output(f"kubectl wait csr/{name} --for=jsonpath='{{.status.certificate}}' --timeout=20s")
    assert "Approved,Issued" in terminal.output(f"kubectl get csr {name}")
    certificate = terminal.output(f"kubectl get csr {name} -o jsonpath='{{.status.certificate}}'")
    (terminal.home / f"{name}.crt").write_bytes(base64.b64decode(certificate))


def test_a_signed_request_lets_its_owner_in(terminal: Terminal, cluster: Up, namespace: str) -> None:
    files = request_of(terminal, namespace, ("jane",), "kube-apiserver-client")
    terminal.output(f"kubectl certificate approve {namespace}")
    signed(terminal, namespace)
    shown = terminal.output(
        f"kubectl --kubeconfig {_without_user(terminal, cluster)} auth whoami "
        f"--client-certificate={files}.crt --client-key={files}.key"
    )
    assert "jane" in shown


def test_a_machine_that_may_ask_becomes_a_node(terminal: Terminal, cluster: Up, namespace: str) -> None:
    """As kubeadm has it join: a token that may ask for a certificate, which is approved and signed by itself."""
    terminal.output("kubectl create serviceaccount machine")
    for role in ("node-bootstrapper", "certificates.k8s.io:certificatesigningrequests:nodeclient"):
        name = role.rpartition(":")[2]
        account = f"--serviceaccount={namespace}:machine"
        terminal.output(f"kubectl create clusterrolebinding {name} --clusterrole=system:{role} {account}")
    subject = ("system:node:joined", "system:nodes")
    token = "--token=$(kubectl create token machine)"
    files = request_of(terminal, namespace, subject, "kube-apiserver-client-kubelet", token)
    signed(terminal, namespace)
    node = (
        f"kubectl --kubeconfig {_without_user(terminal, cluster)} "
        f"--client-certificate={files}.crt --client-key={files}.key"
    )
    manifest = "{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s: x}}}"
    refused = terminal.run(f"{node} create -f -", manifest % ("other", "a"))
    assert 'node "joined" is not allowed to modify node "other"' in refused.err
    refused = terminal.run(f"{node} create -f -", manifest % ("joined", "node-restriction.kubernetes.io/a"))
    labels = "node-restriction.kubernetes.io/a"
    assert f'node "joined" is not allowed to set the following labels: {labels}' in refused.err
    terminal.output(f"{node} create -f -", manifest % ("joined", "example.com/a"))
    assert "joined" in terminal.output(f"{node} get node joined")
    assert "cannot read 'node-1', only its own Node object" in terminal.run(f"{node} get node node-1").err
    terminal.output("kubectl delete node joined")
    terminal.output("kubectl delete clusterrolebinding node-bootstrapper nodeclient")


def _without_user(terminal: Terminal, cluster: Up) -> Path:
    """A kubeconfig that leads to the server, as nobody."""
    path = user_file(terminal, cluster, "--token")
    terminal.output(f"kubectl --kubeconfig {path} config unset users")
    return path


def test_a_token_beside_a_certificate_is_what_counts(terminal: Terminal, namespace: str) -> None:
    terminal.output("kubectl create serviceaccount bot")
    shown = terminal.output("kubectl auth whoami --token=$(kubectl create token bot)")
    assert f"system:serviceaccount:{namespace}:bot" in shown
    refused = terminal.run("kubectl get pods --token=wrong")
    assert "error: You must be logged in to the server" in refused.err


def test_a_certificate_of_another_authority_lets_nobody_in(cluster: Up, tmp_path: Path) -> None:
    async def stranger() -> bytes:
        made = Authority.make("fairlead-ca").identify(User("kubernetes-admin", ("system:masters",)))
        return made.certificate + made.key

    (tmp_path / "stranger.pem").write_bytes(run(stranger()))
    access = load(cluster.kubeconfig)
    context = ssl.create_default_context(cadata=(access.ca or b"").decode())
    context.load_cert_chain(tmp_path / "stranger.pem")
    url = urlsplit(access.server)
    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        socket.create_connection((url.hostname, url.port), 20) as sock,
        context.wrap_socket(sock, server_hostname=url.hostname) as secured,
    ):
        secured.sendall(b"GET /api HTTP/1.1\r\nHost: a\r\n\r\n")
        assert not secured.recv(100)
        raise ConnectionError("closed without an answer")


READER = """apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  nodeName: node-1
  containers: [{name: c, image: i, envFrom: [{configMapRef: {name: needed}}]}]
"""


def test_a_node_comes_with_a_certificate_and_may_what_its_pods_take(
    terminal: Terminal, cluster: Up, namespace: str
) -> None:
    node = f"kubectl --kubeconfig {user_file(terminal, cluster, '--user system:node:node-1 --group system:nodes')}"
    terminal.output("kubectl create configmap needed --from-literal=a=b")
    refusal = (
        'Error from server (Forbidden): configmaps "needed" is forbidden: User "system:node:node-1" cannot get '
        f'resource "configmaps" in API group "" in the namespace "{namespace}": '
        "no relationship found between node 'node-1' and this object"
    )
    assert refusal in terminal.run(f"{node} get configmap needed -n {namespace}").err
    terminal.output("kubectl create -f -", READER)
    assert "needed" in terminal.output(f"{node} get configmap needed -n {namespace}")
    assert "reader" in terminal.output(f"{node} get pods -n {namespace} --field-selector spec.nodeName=node-1")
    only = "can only list/watch pods with spec.nodeName field selector"
    assert only in terminal.run(f"{node} get pods -n {namespace}").err
    label = terminal.run(f"{node} label node node-1 node-role.kubernetes.io/master=")
    assert (
        'Error from server (Forbidden): nodes "node-1" is forbidden: is not allowed to modify labels: '
        "node-role.kubernetes.io/master"
    ) in label.err
    listed = terminal.run(f"{node} auth can-i --list -n {namespace}")
    assert "node authorizer does not support user rule resolution" in listed.err
    terminal.output("kubectl delete pod reader --timeout=30s")
    assert refusal in terminal.run(f"{node} get configmap needed -n {namespace}").err


def _verdict(spec: Obj) -> Obj:
    """Of both kinds of reviews: tokens that begin with `t-` are their users', and jane may do everything."""
    if (token := spec.get("token", "")).startswith("t-"):
        return {"authenticated": True, "user": {"username": token.removeprefix("t-")}}
    return {"allowed": spec.get("user") == "jane", "reason": "says the service"}


def test_services_say_who_somebody_is_and_what_they_may_do(terminal: Terminal, tmp_path: Path) -> None:
    reviewer = Reviewer(tmp_path)
    reviewer.status = _verdict
    file = str(reviewer.kubeconfig)
    options = ["--authentication-token-webhook-config-file", file, "--authorization-webhook-config-file", file]
    with reviewer.serving(), fairlead_up(tmp_path / "data", *options, "--authorization-mode=Webhook") as up:
        token = f"kubectl --kubeconfig {user_file(terminal, up, '--token')}"
        jane, joe = (f"{token.replace('.kubeconfig', f'-{name}')}" for name in ("jane", "joe"))
        for name, command in (("jane", jane), ("joe", joe)):
            access = load(Path(token.rpartition(" ")[2]))
            Path(command.rpartition(" ")[2]).write_text(render(replace(access, token=f"t-{name}")))
        terminal.output(f"{jane} create deployment web --image=web --replicas=2")
        terminal.output(f"{jane} rollout status deployment web --timeout=30s")
        assert "yes" in terminal.output(f"{jane} auth can-i delete nodes")
        refused = terminal.run(f"{joe} get pods").err
        assert (
            'User "joe" cannot list resource "pods" in API group "" in the namespace "default": says the serv'
            in refused
        )
        assert "Unauthorized" in terminal.run(f"{joe.replace('-joe', '-jane')} get pods --token=wrong").err


REFUSED = [
    ("--user ''", "take names, which are not empty"),
    ("--group ops", "--group says something about a --user"),
    ("--user dev --token", "--token is the administrator's"),
    ("--user dev --duration soon", "--duration"),
    ("--user dev --duration 1m", "from 10m to 87600h"),
    ("--user dev --namespace Not/One", "--namespace"),
]


@pytest.mark.parametrize(("options", "said"), each_time(REFUSED[:2], REFUSED))
def test_wrong_options_are_told_in_a_sentence(terminal: Terminal, cluster: Up, options: str, said: str) -> None:
    answer = terminal.run(f"{FAIRLEAD} kubeconfig --data-dir {cluster.data_dir} {options}")
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_there_is_no_way_into_a_cluster_that_is_not_there(terminal: Terminal, tmp_path: Path) -> None:
    answer = terminal.run(f"{FAIRLEAD} kubeconfig --data-dir {tmp_path / 'nowhere'}")
    assert (answer.code, "there is no cluster" in answer.err) == (2, True)
