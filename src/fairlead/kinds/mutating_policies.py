"""MutatingAdmissionPolicy and its bindings: what they may say, and what they are compiled to.

Source: pkg/apis/admissionregistration/validation and apiserver/pkg/admission/plugin/policy/mutating (1.36). The server
asks the compiled policies (`server/admission/mutating_policy.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from fairlead.api.fields import Errors
from fairlead.api.objects import Obj
from fairlead.cel.environment import Program
from fairlead.cel.mutation import APPLY_CONFIGURATION, JSON_PATCHES, MutationTypes, misnamed
from fairlead.cel.types import Type
from fairlead.kinds.admission_expressions import Condition, compile_expression
from fairlead.kinds.admission_policies import (
    AdmissionPolicyBindingStrategy,
    PolicyCompiler,
    are_bounded,
    validate_common,
)
from fairlead.kinds.admission_rules import default_match
from fairlead.kinds.others import CountedStrategy

#: Where a mutation of a type has its expression, and of which type that is.
_PATCHES: Final[Mapping[str, tuple[str, Type]]] = {
    "ApplyConfiguration": ("applyConfiguration", APPLY_CONFIGURATION),
    "JSONPatch": ("jsonPatch", JSON_PATCHES),
}
#: There is nothing to change in what is deleted.
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "UPDATE")


class Mutation(msgspec.Struct, frozen=True):
    """How an object is changed: by an apply configuration, or by a JSON patch."""

    program: Program
    is_patch: bool
    #: Why it cannot be carried out, whatever the object says.
    fault: str


class CompiledMutations(msgspec.Struct, frozen=True):
    """The expressions of a policy."""

    conditions: tuple[Condition, ...]
    variables: tuple[tuple[str, Program], ...]
    mutations: tuple[Mutation, ...]


def compile_mutations(spec: Obj, errors: Errors | None = None) -> CompiledMutations:
    """Compile a policy. What does not compile is added to `errors` and left out; without them there is nothing such."""
    errors = Errors() if errors is None else errors
    compiler = PolicyCompiler(spec, errors)
    conditions, variables = compiler.conditions(), compiler.variables()
    mutations = []
    for index, mutation in enumerate(spec.get("mutations") or ()):
        key, wanted = _PATCHES.get(mutation.get("patchType", ""), ("", JSON_PATCHES))
        if mutation.get(key) is None:
            continue
        path, source = f"spec.mutations[{index}].{key}.expression", mutation[key].get("expression")
        environment = compiler.environment(MutationTypes())
        program = compile_expression(environment, source, path, errors, wanted, missing="expression is not specified")
        if program is not None:
            mutations.append(Mutation(program, wanted is JSON_PATCHES, misnamed(program.source)))
    return CompiledMutations(conditions, variables, tuple(mutations))


class MutatingAdmissionPolicyStrategy(CountedStrategy):
    slow_bytes = 4 << 10  # expressions take long to compile

    def __init__(self) -> None:
        super().__init__(allows_unconditional_update=False)

    def default(self, obj: Obj) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            spec.setdefault("failurePolicy", "Fail")
            default_match(spec.get("matchConstraints"))

    def validate(self, obj: Obj, errors: Errors) -> None:
        spec = obj.get("spec") or {}
        validate_common(spec, errors)
        _validate_operations(spec.get("matchConstraints") or {}, "spec.matchConstraints", errors)
        _validate_mutations(spec.get("mutations") or [], errors)
        policy = spec.get("reinvocationPolicy")
        if not policy:
            errors.required("spec.reinvocationPolicy")
        elif policy not in ("IfNeeded", "Never"):
            errors.not_supported("spec.reinvocationPolicy", policy, ("IfNeeded", "Never"))
        if are_bounded(_expressions(spec), errors):
            compile_mutations(spec, errors)

    def validate_update(self, obj: Obj, old: Obj, errors: Errors) -> None:
        if obj.get("spec") != old.get("spec"):
            self.validate(obj, errors)


class MutatingAdmissionPolicyBindingStrategy(AdmissionPolicyBindingStrategy):
    def validate(self, obj: Obj, errors: Errors) -> None:
        super().validate(obj, errors)
        _validate_operations((obj.get("spec") or {}).get("matchResources") or {}, "spec.matchResources", errors)


def _validate_operations(match: Obj, path: str, errors: Errors) -> None:
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _OPERATIONS:
                errors.not_supported(f"{path}.resourceRules.operations", operation, _OPERATIONS)


def _validate_mutations(mutations: list[Obj], errors: Errors) -> None:
    if not mutations:
        errors.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        path, type_ = f"spec.mutations[{index}]", mutation.get("patchType")
        if not type_:
            errors.required(f"{path}.patchType")
        elif type_ not in _PATCHES:
            errors.not_supported(f"{path}.patchType", type_, _PATCHES)
        elif mutation.get(key := _PATCHES[type_][0]) is None:
            errors.required(f"{path}.{key}", f"must be specified when patchType is {type_}")


def _expressions(spec: Obj) -> Iterator[str | None]:
    for key in ("matchConditions", "variables"):
        for item in spec.get(key) or ():
            yield item.get("expression")
    for mutation in spec.get("mutations") or ():
        for key, _ in _PATCHES.values():
            yield (mutation.get(key) or {}).get("expression")
