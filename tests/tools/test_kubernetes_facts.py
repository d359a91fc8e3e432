"""The tables of facts, made from a small source tree in the form of Kubernetes' own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import fairlead
from fairlead.server.codec import wire as committed
from tools.kubernetes_facts import __main__ as command
from tools.kubernetes_facts.facts import facts_lines
from tools.kubernetes_facts.gosource import GoSourceError
from tools.kubernetes_facts.podspec import podspec_lines
from tools.kubernetes_facts.sources import Sources
from tools.kubernetes_facts.wire import wire_lines, wire_rows

META = """\
package v1

type TypeMeta struct {
	Kind string `json:"kind,omitempty" protobuf:"bytes,1,opt,name=kind"`
}

type ObjectMeta struct {
	Name string `json:"name,omitempty" protobuf:"bytes,1,opt,name=name"`
	Born Time   `json:"born,omitempty,omitzero" protobuf:"bytes,8,opt,name=born"`
}

type LabelSelector struct {
	Labels map[string]string `json:"labels,omitempty" protobuf:"bytes,1,rep,name=labels"`
}
"""
TIME = """\
package v1

import "time"

type Time struct {
	time.Time `protobuf:"-"`
}

func (t Time) MarshalJSON() ([]byte, error) {
	return nil, nil
}
"""
FLEET = """\
/*
type Licence struct {
*/

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/api/harbour/v1"
)

// +enum
// Flag says under which flag a boat sails.
type Flag string

const (
	// FlagRed is red.
	FlagRed   Flag = "Red"
	FlagGreen      = Flag("Green") // and this one is green
	FlagOwn   Flag = v1.OwnFlag
	FlagLimit      = 3
)

const DefaultBerths int32 = 3

// Boat is a boat.
type Boat struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`

	// Where it lies.
	// +optional
	Berth *v1.Berth `json:"berth,omitempty" protobuf:"bytes,3,opt,name=berth"`
	/* Its crew: // nobody knows
	*/
	Crew  []Sailor          `json:"crew" protobuf:"bytes,2,rep,name=crew"`
	Cargo map[string][]byte `json:"cargo,omitempty" protobuf:"bytes,4,rep,name=cargo"` // by place
	// +default=ref(FlagRed)
	Flag Flag `json:"flag" protobuf:"bytes,5,opt,name=flag,casttype=Flag"`
	Tags Tags `json:"tags,omitempty" protobuf:"bytes,6,opt,name=tags"`
	Anchor `json:"" protobuf:"bytes,7,opt,name=anchor"`
	hidden int32 `json:"-"`
}

// Sailor is known elsewhere, too.
type Sailor = v1.Sailor

// Anchor is inlined.
type Anchor struct {
	// +default=2
	Depth int32 `json:"depth,omitempty" protobuf:"varint,1,opt,name=depth"`
}

// Tags masks the value.
//
// +protobuf.nullable=true
type Tags []string

// Info is what /version answers.
type Info struct {
	Major string `json:"major"`
}
"""
HARBOUR = """\
package v1

const OwnFlag = String("Own")

type Berth struct{}

type Sailor struct {
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
}
"""
CORE = """\
package core

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type PodSpec struct {
	Disks     []Disk
	Ring      map[string]string
	HostPID   bool
	Selector  *v1.LabelSelector
	Mode      *Mode
	Deadlines []v1.Time
}

type Mode string

type PersistentVolumeSource struct {
	Local *DiskSource
}

type Disk struct {
	v1.ObjectMeta
	DiskSource
	Port intstr.IntOrString
}

type DiskSource struct {
	EndpointsName string
	ReadOnly      bool
}
"""
PUBLISHED_CORE = """\
package v1

type DiskSource struct {
	EndpointsName string `json:"endpoints" protobuf:"bytes,1,opt,name=endpoints"`
	ReadOnly      bool   `json:"readOnly" protobuf:"varint,2,opt,name=readOnly"`
}
"""
FILES = {
    "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/types.go": META,
    "staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/time.go": TIME,
    "staging/src/k8s.io/apimachinery/pkg/util/intstr/intstr.go": "type IntOrString struct {\n}\n",
    "staging/src/k8s.io/api/fleet/v1/types.go": FLEET,
    "staging/src/k8s.io/api/fleet/v1/types_test.go": "type Boat string",
    "staging/src/k8s.io/api/fleet/v1/zz_generated.deepcopy.go": "type Boat string",
    "staging/src/k8s.io/api/harbour/v1/types.go": HARBOUR,
    "staging/src/k8s.io/api/core/v1/types.go": PUBLISHED_CORE,
    "pkg/apis/core/types.go": CORE,
}
BOAT = "io.k8s.api.fleet.v1.Boat"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return tmp_path


def change(tree: Path, before: str, after: str) -> Sources:
    """The tree with something else in the types of the fleet."""
    path = tree / "staging/src/k8s.io/api/fleet/v1/types.go"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    return Sources(tree)


def test_the_wire_table_has_what_the_types_consist_of(tree: Path) -> None:
    harbour = "io.k8s.api.harbour.v1"
    rows = wire_rows(Sources(tree), [BOAT, "io.k8s.api.fleet.v1.Info"])
    assert (
        "\n".join(wire_lines(rows))
        == f"""\
io.k8s.api.fleet.v1
 Anchor: depth 1 int32 e
 Boat: ^meta, metadata 1 meta.ObjectMeta e, berth 3 *{harbour}.Berth e, crew 2 []{harbour}.Sailor, \
cargo 4 map[string][]byte e, flag 5 Flag, tags 6 Tags e, ^ 7 Anchor
 Flag = string
 Tags ~ []string
io.k8s.api.harbour.v1
 Berth:\x20
 Sailor: name 1 string
io.k8s.apimachinery.pkg.apis.meta.v1
 ObjectMeta: name 1 string e, born 8 Time ez
 Time ! time
 TypeMeta: kind 1 string e"""
    )


def test_the_facts_have_enums_and_declared_defaults(tree: Path) -> None:
    sources = Sources(tree)
    assert list(facts_lines(sources, wire_rows(sources, [BOAT]))) == [
        "io.k8s.api.fleet.v1",
        " Anchor.depth = 2",
        ' Boat.flag = "Red"',
        " Flag: Green|Own|Red",
    ]


def test_the_internal_types_of_a_pod_have_go_names_and_the_json_names_that_do_not_follow(tree: Path) -> None:
    assert list(podspec_lines(Sources(tree))) == [
        "Disk: ^@meta, ^DiskSource, Port i",
        "DiskSource: EndpointsName=endpoints s, ReadOnly b",
        "PersistentVolumeSource: Local *DiskSource",
        "PodSpec: Disks []Disk, Ring {}, HostPID b, Selector *@, Mode *s, Deadlines []t",
    ]


def test_a_type_with_json_of_its_own_that_nobody_knows_is_refused(tree: Path) -> None:
    sources = change(tree, "// Info is", "func (b *Boat) MarshalJSON() ([]byte, error) {\n}\n\n// Info is")
    with pytest.raises(GoSourceError, match=f"{BOAT} writes its own JSON in a form"):
        wire_rows(sources, [BOAT])


@pytest.mark.parametrize("field", ['Crew []Sailor `json:"crew"`', "Crew []Sailor", "one, two int32"])
def test_a_field_of_another_form_is_refused(tree: Path, field: str) -> None:
    sources = change(tree, "	/* Its", f"	{field}\n	/* Its")
    with pytest.raises(GoSourceError, match=f"{BOAT} has a field without a number or a name: "):
        wire_rows(sources, [BOAT])


def test_a_constant_that_is_nowhere_is_named(tree: Path) -> None:
    sources = change(tree, "ref(FlagRed)", "ref(FlagBlue)")
    with pytest.raises(GoSourceError, match=r"io\.k8s\.api\.fleet\.v1 declares no constant FlagBlue"):
        list(facts_lines(sources, [BOAT]))


def test_sources_of_another_release_than_the_openapi_are_refused(tree: Path) -> None:
    with pytest.raises(GoSourceError, match=r"of another release .* lack io\.k8s\.api\.fleet\.v1\.Raft$"):
        wire_rows(Sources(tree), [BOAT, "io.k8s.api.fleet.v1.Raft"])


@pytest.mark.parametrize("key", ["definitions", "$defs"])
def test_the_types_are_those_of_an_openapi_document(tree: Path, key: str) -> None:
    (tree / "openapi.json").write_text(json.dumps({key: {BOAT: {}}}))
    package = tree / "package"
    for folder in ("server/codec", "server/openapi", "kinds"):
        (package / folder).mkdir(parents=True)
    definitions = command.read_definitions(tree / "openapi.json")
    written = command.write_tables(Sources(tree), definitions, "1.90", package)
    for path in written:
        header, body = path.read_text("utf-8").splitlines()[0], path.read_text("utf-8").splitlines()[-1]
        assert "Kubernetes 1.90" in header
        assert header.startswith("#")
        assert not body.startswith("#")


def test_nothing_is_written_if_a_table_cannot_be_made(tree: Path) -> None:
    (tree / "pkg/apis/core/types.go").unlink()
    with pytest.raises(GoSourceError, match="pkg/apis/core holds no Go sources; give the source tree of a Kubernetes"):
        command.write_tables(Sources(tree), [BOAT], "1.90", tree)
    assert not (tree / "server").exists()


def test_a_tree_without_openapi_is_named(tree: Path) -> None:
    with pytest.raises(SystemExit, match=r"error: .*/api/openapi-spec/swagger\.json: No such file or directory"):
        command.main([str(tree)])


@pytest.mark.parametrize("table", ["server/codec/wire.txt", "server/openapi/facts.txt", "kinds/podspec_internal.txt"])
def test_the_committed_tables_are_of_the_compatibility_version(table: str) -> None:
    text = Path(fairlead.__file__).parent.joinpath(table).read_text("utf-8")
    assert f"Kubernetes {fairlead.COMPATIBILITY_VERSION}" in text.splitlines()[0]


def test_go_names_an_alias_by_what_it_is() -> None:
    """In Go `type ReinvocationPolicyType = v1.ReinvocationPolicyType` is no type of its own."""
    spec = committed.fields("io.k8s.api.admissionregistration.v1alpha1.MutatingAdmissionPolicySpec")
    assert spec["reinvocationPolicy"].shape.go == "v1.ReinvocationPolicyType"
