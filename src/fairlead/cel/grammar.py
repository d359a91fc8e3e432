"""From text to syntax: lark reads by the grammar, this module builds nodes and expands macros."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias, cast

from lark import Lark, Token, Transformer, UnexpectedInput, v_args

from fairlead.cel.errors import CompileError
from fairlead.cel.syntax import (
    RESERVED,
    Call,
    Entry,
    Ident,
    ListLiteral,
    Literal,
    Logic,
    Macro,
    MapLiteral,
    Node,
    ObjectLiteral,
    Select,
)
from fairlead.cel.values import Uint

#: Macros of a target by name: how many variables they declare, and how many expressions follow.
_MACROS: Final[dict[str, set[tuple[int, int]]]] = {
    "all": {(1, 1), (2, 1)},
    "exists": {(1, 1), (2, 1)},
    "exists_one": {(1, 1)},
    "existsOne": {(1, 1), (2, 1)},
    "map": {(1, 1), (1, 2)},
    "filter": {(1, 1)},
    "transformList": {(2, 1), (2, 2)},
    "transformMap": {(2, 1), (2, 2)},
    "transformMapEntry": {(2, 1), (2, 2)},
    "optMap": {(1, 1)},
    "optFlatMap": {(1, 1)},
    "sortBy": {(1, 1)},
}
_ESCAPE: Final = re.compile(
    r"\\(x[0-9a-fA-F]{2}|X[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2}|.)", re.S
)
_SIMPLE_ESCAPES: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip
_INT_MAX: Final = (1 << 63) - 1
#: A number of so many digits is too large for every type.
_MOST_DIGITS: Final = 21
_UINT_MAX: Final = (1 << 64) - 1


class _BadSyntax(Exception):
    """What the grammar lets through and the language does not."""

    def __init__(self, at: int, text: str) -> None:
        super().__init__(text)
        self.at, self.text = at, text


def read(source: str, *, has_bind: bool) -> Node:
    """The syntax of an expression; `CompileError` says what is wrong with it. `has_bind`: there is `cel.bind`."""
    try:
        return cast(Node, _parser(has_bind).parse(source))
    except UnexpectedInput as error:
        raise CompileError(source, [_unexpected(source, error)]) from None
    except _BadSyntax as error:
        raise CompileError(source, [(error.at, error.text)]) from None


@cache
def _parser(has_bind: bool) -> Lark:
    grammar = resources.files("fairlead.cel").joinpath("grammar.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", transformer=_Builder(has_bind))


def _unexpected(source: str, error: UnexpectedInput) -> tuple[int, str]:
    token: Token | None = getattr(error, "token", None)
    at = error.pos_in_stream or 0
    if (token is not None and token.type == "$END") or not 0 <= at < len(source):
        return len(source), "Syntax error: mismatched input '<EOF>'"
    if token is None:  # the rest of an operator that the character could have begun is missing
        read = source[at : at + (2 if source[at] in "=&|" else 1)]
        return at, f"Syntax error: token recognition error at: '{read}'"
    return at, f"Syntax error: mismatched input '{token}'"


_Optional: TypeAlias = tuple[bool, Node]
_Arguments: TypeAlias = Sequence[Node]


@v_args(inline=True)
class _Builder(Transformer[Token, Node]):
    """Called by the parser from the leaves up."""

    def __init__(self, has_bind: bool) -> None:
        super().__init__()
        self._has_bind = has_bind

    def start(self, node: Node) -> Node:
        return node

    # -- operators

    def conditional(self, condition: Node, yes: Node, no: Node) -> Node:
        return Call("_?_:_", (condition, yes, no), condition.at)

    def logical_or(self, left: Node, right: Node) -> Node:
        return _joined(False, left, right)

    def logical_and(self, left: Node, right: Node) -> Node:
        return _joined(True, left, right)

    def binary(self, left: Node, operator: Token, right: Node) -> Node:
        name = "@in" if operator == "in" else f"_{operator}_"
        return Call(name, (left, right), _at(operator))

    def negation(self, operator: Token, operand: Node) -> Node:
        return Call("!_", (operand,), _at(operator))

    def minus(self, operator: Token, operand: Node) -> Node:
        if isinstance(operand, Literal) and isinstance(operand.value, int | float) and _is_number(operand.value):
            return Literal(-operand.value, _at(operator))
        _check_range(operand)
        return Call("-_", (operand,), _at(operator))

    # -- members

    def select(self, operand: Node, dot: Token, field: Token) -> Node:
        _check_range(operand)
        return Select(operand, field.strip("`"), _at(dot))

    def optional_select(self, operand: Node, dot: Token, field: Token) -> Node:
        return Select(operand, str(field), _at(dot), is_optional=True)

    def index(self, operand: Node, bracket: Token, key: Node) -> Node:
        return Call("_[_]", (operand, key), _at(bracket))

    def optional_index(self, operand: Node, bracket: Token, key: Node) -> Node:
        return Call("_[?_]", (operand, key), _at(bracket))

    def method(self, target: Node, dot: Token, name: Token, paren: Token, arguments: _Arguments) -> Node:
        if name in _MACROS and (found := _macro(str(name), target, arguments, _at(paren))) is not None:
            return found
        if self._has_bind and name == "bind" and len(arguments) == 3 and target == Ident("cel", target.at):
            return _bind(arguments, _at(paren))
        return Call(str(name), tuple(arguments), _at(paren), target)

    def function(self, name: Token, paren: Token, arguments: _Arguments) -> Node:
        if name == "has" and len(arguments) == 1:
            (argument,) = arguments
            if not isinstance(argument, Select) or argument.is_optional:
                raise _BadSyntax(argument.at, "invalid argument to has() macro")
            return Select(argument.operand, argument.field, argument.at, is_test=True)
        return Call(str(name), tuple(arguments), _at(paren))

    def rooted_function(self, dot: Token, name: Token, paren: Token, arguments: _Arguments) -> Node:
        return self.function(name, paren, arguments)

    def arguments(self, *found: Node) -> _Arguments:
        return found

    # -- literals

    def ident(self, name: Token) -> Node:
        if name in RESERVED:
            raise _BadSyntax(_at(name), f"reserved identifier: {name}")
        return Ident(str(name), _at(name))

    def rooted_ident(self, dot: Token, name: Token) -> Node:
        return Ident(str(name), _at(dot))

    def list_literal(self, bracket: Token, elements: Sequence[_Optional]) -> Node:
        return _list(elements, _at(bracket))

    def list_with_optional(self, bracket: Token, first: Node, *others: Any) -> Node:
        return _list([(True, first), *(_plain(other) for other in others)], _at(bracket))

    def elements(self, *found: Any) -> Sequence[_Optional]:
        return [_plain(element) for element in found]

    def optional_element(self, node: Node) -> _Optional:
        return True, node

    def map_literal(self, brace: Token, entries: Sequence[Entry]) -> Node:
        return MapLiteral(tuple(entries), _at(brace))

    def entries(self, *found: Entry) -> Sequence[Entry]:
        return found

    def entry(self, key: Node, value: Node) -> Entry:
        return Entry(key, value, False, key.at)

    def optional_entry(self, key: Node, value: Node) -> Entry:
        return Entry(key, value, True, key.at)

    def object(self, type_name: Node, brace: Token, fields: Sequence[Entry]) -> Node:
        return ObjectLiteral(_dotted(type_name), tuple(fields), _at(brace))

    def fields(self, *found: Entry) -> Sequence[Entry]:
        return found

    def field(self, name: Token, value: Node) -> Entry:
        return Entry(Ident(str(name), _at(name)), value, False, _at(name))

    def optional_field(self, name: Token, value: Node) -> Entry:
        return Entry(Ident(str(name), _at(name)), value, True, _at(name))

    def int_literal(self, text: Token) -> Node:
        value = _whole(text)
        if value > _INT_MAX + 1:
            raise _BadSyntax(_at(text), "invalid int literal")
        return Literal(value, _at(text))

    def uint_literal(self, text: Token) -> Node:
        value = _whole(text[:-1])
        if value > _UINT_MAX:
            raise _BadSyntax(_at(text), "invalid uint literal")
        return Literal(Uint(value), _at(text))

    def float_literal(self, text: Token) -> Node:
        return Literal(float(text), _at(text))

    def string_literal(self, text: Token) -> Node:
        return Literal(_unquoted(text, _at(text)), _at(text))

    def bytes_literal(self, text: Token) -> Node:
        body = text.replace("b", "", 1) if text[0] == "b" or text[1] == "b" else text.replace("B", "", 1)
        return Literal(_bytes(body, _at(text)), _at(text))

    def true_literal(self, text: Token) -> Node:
        return Literal(True, _at(text))

    def false_literal(self, text: Token) -> Node:
        return Literal(False, _at(text))

    def null_literal(self, text: Token) -> Node:
        return Literal(None, _at(text))


def _at(token: Token) -> int:
    return token.start_pos or 0


def _plain(element: Any) -> _Optional:
    return element if isinstance(element, tuple) else (False, element)


def _list(elements: Sequence[_Optional], at: int) -> Node:
    optionals = frozenset(index for index, (is_optional, _) in enumerate(elements) if is_optional)
    return ListLiteral(tuple(node for _, node in elements), optionals, at)


def _joined(is_and: bool, left: Node, right: Node) -> Node:
    """Chains of one operator are one node: any of them may decide, whatever the order."""
    operands = left.operands if isinstance(left, Logic) and left.is_and == is_and else (left,)
    return Logic(is_and, (*operands, right), left.at)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | Uint)


def _check_range(node: Node) -> None:
    """The smallest int has no positive counterpart: its digits are valid after a minus alone."""
    if isinstance(node, Literal) and type(node.value) is int and node.value > _INT_MAX:
        raise _BadSyntax(node.at, "invalid int literal")


def _macro(name: str, target: Node, arguments: _Arguments, at: int) -> Node | None:
    """The macro, or None for a function that happens to have its name (with other arguments)."""
    for variables, bodies in sorted(_MACROS[name], reverse=True):
        if len(arguments) != variables + bodies:
            continue
        idents = [argument for argument in arguments[:variables] if isinstance(argument, Ident)]
        if len(idents) == variables:
            found = tuple(ident.name for ident in idents)
            return Macro(name, target, found, tuple(arguments[variables:]), at)
    if any(len(arguments) == variables + bodies for variables, bodies in _MACROS[name]):
        raise _BadSyntax(arguments[0].at, "argument must be a simple name")
    return None


def _bind(arguments: _Arguments, at: int) -> Node:
    """`cel.bind(name, value, expression that names it)` (cel-go's ext/bindings.go)."""
    name, value, body = arguments
    if not isinstance(name, Ident):
        raise _BadSyntax(name.at, "cel.bind() variable names must be simple identifiers")
    return Macro("bind", value, (name.name,), (body,), at)


def _dotted(node: Node) -> str:
    names: list[str] = []
    while isinstance(node, Select) and not node.is_optional and not node.is_test:
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        raise _BadSyntax(node.at, "Syntax error: an object is made of a type name")
    return ".".join([node.name, *reversed(names)])


def _unquoted(text: str, at: int) -> str:
    is_raw = text[0] in "rR"
    body = _body(text[1:] if is_raw else text)
    return body if is_raw else _ESCAPE.sub(_replacement(at, chr), body)


def _bytes(text: str, at: int) -> bytes:
    is_raw = text[0] in "rR"
    body = _body(text[1:] if is_raw else text)
    if is_raw:
        return body.encode()
    pieces: list[bytes] = []
    end = 0
    for found in _ESCAPE.finditer(body):
        pieces.append(body[end : found.start()].encode())
        code = found[1]
        if code[0] in "uU":
            raise _BadSyntax(at, "Syntax error: bytes have no unicode escapes")
        octet = code[0] in "xX" or code.isdigit()
        pieces.append(bytes([_code(code)]) if octet else _replacement(at, chr)(found).encode())
        end = found.end()
    pieces.append(body[end:].encode())
    return b"".join(pieces)


def _whole(text: str) -> int:
    """The number; of one that no type can hold as much as shows that."""
    return int(text, 0) if "x" in text else int(text.lstrip("0")[:_MOST_DIGITS] or "0")


def _body(text: str) -> str:
    width = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[width:-width]


def _code(code: str) -> int:
    return int(code, 8) if code.isdigit() else int(code[1:], 16)


def _replacement(at: int, character: Callable[[int], str]) -> Callable[[re.Match[str]], str]:
    def replace(found: re.Match[str]) -> str:
        code = found[1]
        if code in _SIMPLE_ESCAPES:
            return _SIMPLE_ESCAPES[code]
        if len(code) == 1:
            raise _BadSyntax(at, f"Syntax error: unable to unescape string: \\{code}")
        try:
            found_character = character(_code(code))
            codecs.encode(found_character, "utf-8")
        except (ValueError, OverflowError):
            raise _BadSyntax(at, "Syntax error: invalid unicode code point") from None
        return found_character

    return replace
