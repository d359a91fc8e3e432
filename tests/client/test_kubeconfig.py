"""What `fairlead up` writes can be read back, and what is no kubeconfig is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fairlead.client.kubeconfig import Access, in_cluster, load, load_merged, render

TWO_CONTEXTS = """
apiVersion: v1
kind: Config
current-context: one
clusters:
- name: c
  cluster: {server: "https://example.com", certificate-authority: ca.pem}
users:
- name: u
  user: {tokenFile: token}
contexts:
- name: one
  context: {cluster: c, user: u}
- name: two
  context: {cluster: c, user: u, namespace: kube-system}
- name: broken
  context: {cluster: nowhere, user: u}
"""


@pytest.fixture
def two_contexts(tmp_path: Path) -> Path:
    (tmp_path / "ca.pem").write_bytes(b"CA")
    (tmp_path / "token").write_text("secret\n")
    path = tmp_path / "config"
    path.write_text(TWO_CONTEXTS)
    return path


def test_what_is_rendered_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "config"
    access = Access("https://127.0.0.1:6443", b"CA", "secret", b"certificate", b"key", "team")
    path.write_text(render(access))
    assert load(path) == access


def test_files_are_found_beside_the_kubeconfig(two_contexts: Path) -> None:
    token_file = two_contexts.parent / "token"
    assert load(two_contexts) == Access("https://example.com", b"CA", "secret", token_file=token_file)


def test_a_named_context_is_preferred_to_the_current_one(two_contexts: Path) -> None:
    assert load(two_contexts, "two").namespace == "kube-system"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "contexts"),
        ("just words", "not a kubeconfig"),
        ("- a list", "not a kubeconfig"),
        ("kind: Pod", "not a kubeconfig"),
        ("{", "yaml: "),
        ("contexts: [null, 3]", "contexts"),
        (TWO_CONTEXTS.replace("current-context: one", "current-context: broken"), "'nowhere' under 'clusters'"),
    ],
)
def test_what_is_no_kubeconfig_is_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        load(path)


def test_what_else_is_in_a_kubeconfig_stays() -> None:
    prod = {"name": "prod", "cluster": {"server": "https://prod.example"}}
    existing = {"apiVersion": "v1", "kind": "Config", "clusters": [prod, None], "current-context": "prod"}
    first = yaml.safe_load(render(Access("https://127.0.0.1:1", b"CA", "secret"), existing))
    assert prod in first["clusters"]
    assert first["current-context"] == "fairlead"
    first["contexts"][0]["context"]["namespace"] = "team"
    again = yaml.safe_load(render(Access("https://127.0.0.1:2", b"CA", "secret"), first))
    assert [one and one["name"] for one in again["clusters"]] == ["prod", None, "fairlead"]
    assert again["contexts"][0]["context"]["namespace"] == "team"


@pytest.mark.parametrize(
    ("host", "server"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_knows_its_cluster(tmp_path: Path, host: str, server: str) -> None:
    for name in ("token", "ca.crt", "namespace"):
        (tmp_path / name).write_text(f"{name}\n")
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    found = in_cluster(environment, tmp_path)
    token_file = tmp_path / "token"
    assert found == Access(server, b"ca.crt\n", "token", namespace="namespace", token_file=token_file)
    with pytest.raises(ValueError, match="no pod"):
        in_cluster({}, tmp_path)


def test_of_several_files_the_first_that_names_something_counts(tmp_path: Path) -> None:
    """As KUBECONFIG names them; files are beside the kubeconfig that says so."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, server in ((ours, "https://ours.example"), (theirs, "https://theirs.example")):
        folder.mkdir()
        (folder / "ca.pem").write_bytes(folder.name.encode())
        (folder / "token").write_text(folder.name)
        (folder / "config").write_text(TWO_CONTEXTS.replace("https://example.com", server))
    first = "{current-context: two, users: [{name: u, user: {token: of the first}}]}"
    (tmp_path / "first").write_text(first)
    merged = load_merged([tmp_path / "nothing", tmp_path / "first", theirs / "config", ours / "config"])
    assert merged == Access("https://theirs.example", b"theirs", "of the first", namespace="kube-system")
    with pytest.raises(FileNotFoundError):
        load_merged([tmp_path / "nothing", tmp_path / "none"])


def test_a_kubeconfig_says_as_whom_to_act_and_by_which_way(tmp_path: Path) -> None:
    user = {"username": "jane", "password": "secret", "as": "ops", "as-groups": ["a", "b"], "as-uid": "7"}
    cluster = {"server": "https://c.example", "tls-server-name": "c", "proxy-url": "http://proxy.example:3128"}
    config = {
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user | {"as-user-extra": {"example.com/lane": ["x", "y"]}}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    found = load(path)
    assert (found.username, found.password, found.server_name, found.proxy) == (
        *("jane", "secret"),
        *("c", "http://proxy.example:3128"),
    )
    assert found.impersonation == (
        ("Impersonate-User", "ops"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.com%2Flane", "x"),
        ("Impersonate-Extra-example.com%2Flane", "y"),
    )
