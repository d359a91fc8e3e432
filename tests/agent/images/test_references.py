"""Names of images mean what they mean to containerd."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.agent.images.errors import InvalidReference
from fairlead.agent.images.references import parse

DIGEST = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("saadali/simmemleak", "docker.io/saadali/simmemleak:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("index.docker.io/nginx", "docker.io/library/nginx:latest"),
        ("localhost/app", "localhost/app:latest"),
        ("localhost:5000/app:v1", "localhost:5000/app:v1"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("gcr.io/google_containers/redis:v1", "gcr.io/google_containers/redis:v1"),
        ("Host/app", "Host/app:latest"),
        ("a__b/c-d.e", "docker.io/a__b/c-d.e:latest"),
        (f"nginx@{DIGEST}", f"docker.io/library/nginx@{DIGEST}"),
        (f"nginx:1.27@{DIGEST}", f"docker.io/library/nginx@{DIGEST}"),
        (f"127.0.0.1:5000/a/b@{DIGEST}", f"127.0.0.1:5000/a/b@{DIGEST}"),
    ],
)
def test_a_name_is_made_full(text: str, full: str) -> None:
    assert str(parse(text)) == full


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "a b", "nginx:", "/nginx", "nginx/", "a//b", "-a", "a..b/c", "a___b", "nginx\n", "nginx:v1\n"),
        *("nginx@sha256:12", f"nginx@md5:{'0' * 64}", "http://nginx/a"),
        *("nginx:" + "t" * 129, "a" * 2000, "x/" + "a" * 256),
    ],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidReference):
        parse(text)


def test_the_refusal_is_the_one_of_the_kubelet() -> None:
    with pytest.raises(InvalidReference, match=r'^couldn\'t parse image name "a b": invalid reference format$'):
        parse("a b")
    with pytest.raises(InvalidReference, match=r"repository name \(library/Nginx\) must be lowercase$"):
        parse("Nginx")
    with pytest.raises(InvalidReference, match="cannot specify 64-byte hexadecimal strings"):
        parse("0a" * 32)


_NAMES = st.from_regex(r"[a-z0-9]{1,4}([._-][a-z0-9]{1,3})?", fullmatch=True)


@given(
    host=st.sampled_from(["", "localhost/", "a.b/", "h:5/", "docker.io/", "index.docker.io/"]),
    path=st.lists(_NAMES, min_size=1, max_size=3),
    end=st.sampled_from(["", ":v1", f"@{DIGEST}", f":v1@{DIGEST}"]),
)
def test_a_full_name_means_itself(host: str, path: list[str], end: str) -> None:
    full = str(parse(host + "/".join(path) + end))
    assert str(parse(full)) == full


@given(st.text(alphabet="aA0./:@_-[] é\n", max_size=40))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        full = parse(text)
    except InvalidReference:
        return
    assert parse(str(full)) == full
