"""A rule of the library, and how one function looks without it.

A mutant names a function and what in its syntax tree is replaced, by the names that this part
mentions. So it survives reformatting and code around it, and fails where the part is gone or is not
the only one.
"""

import ast
import builtins
import tomllib
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[2]
PACKAGE = "gateway_async"
SEEDS = "seeds"
"""The simulation, at most a thousand seeds of it."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)
_NOT_SIMPLE = (*_BLOCKS, *_DEFINITIONS)
_PARTS = (ast.expr, ast.keyword, ast.stmt)
_FIELDS: dict[str, dict[type[ast.AST], tuple[str, ...]]] = {
    "condition": {
        ast.If: ("test",),
        ast.While: ("test",),
        ast.IfExp: ("test",),
        ast.For: ("iter",),
        ast.comprehension: ("ifs",),
    },
    "operand": {ast.BoolOp: ("values",), ast.Call: ("args",)},
    "keyword": {ast.Call: ("keywords",)},
    "except": {ast.ExceptHandler: ("type",)},
    "statement": {ast.AST: ("body", "orelse", "finalbody")},
}
_INSTEAD = {"condition": "False", "statement": "pass", "operand": "", "keyword": ""}


@attrs.frozen
class Mutant:
    """A rule taken out.

    Attributes:
        rule: What no longer holds.
        place: The module below the package and the qualified name in it: `session:Call._send`;
            `module:` for its top level.
        part: The kind of what is replaced: a `condition`, a simple `statement`, an `operand` (of
            "and", "or" or a call), a `keyword` argument, or the error of an `except`.
        names: What the part mentions: names, attributes, arguments, constants. Where
            several parts of the place mention all of them, the one that mentions nothing else.
        by: The source that stands there instead; an operand or keyword argument without one goes.
        guard: What must notice: `SEEDS`, or a selection of tests.
    """

    rule: str
    place: str
    part: str
    names: tuple[str, ...]
    by: str
    guard: str

    def apply(self, package: Path) -> tuple[Path, ast.Module]:
        """Return the file that has the place, and its syntax tree without the rule.

        Raises:
            ValueError: If the place or the part is not there, or not only once.
        """
        module, _, name = self.place.partition(":")
        path = package.joinpath(*module.split(".")).with_suffix(".py")
        tree = ast.parse(path.read_text() if path.is_file() else "")
        scope = _functions(tree).get(name)
        if scope is None or not path.is_file():
            raise ValueError(f"{self.rule}: {self.place} is not there")
        used = [node for node in ast.walk(ast.parse(self.by)) if isinstance(node, ast.Name)]
        made = {node.id for node in used if isinstance(node.ctx, ast.Store)}
        named = {node.id for node in used} - made - {*dir(builtins)}
        if named and (strange := named - _mentioned(tree)):
            raise ValueError(f"{self.rule}: {path.name} does not know {', '.join(sorted(strange))}")
        before = ast.dump(scope)
        wanted = {*self.names}
        slots = [slot for slot in _parts(scope, self.part) if wanted <= _mentioned(slot.node)]
        exact = [slot for slot in slots if wanted == _mentioned(slot.node)]
        slots = exact if len(exact) == 1 else slots
        if len(slots) != 1:
            found = " | ".join(ast.unparse(slot.node) for slot in slots) or "none"
            needed = f"{self.part} that mentions {' '.join(self.names)}"
            raise ValueError(f"{self.rule}: {self.place} needs one {needed}, and has: {found}")
        slots[0].replace(self.by)
        if ast.dump(scope) == before:
            raise ValueError(f"{self.rule}: {self.place} is the same without it")
        return path, tree


@attrs.frozen
class _Slot:
    """A node, and where it hangs: a field of another, at a position where that is a list."""

    holder: ast.AST
    field: str
    position: int | None
    node: ast.AST

    def replace(self, source: str) -> None:
        held, parsed = getattr(self.holder, self.field), ast.parse(source).body
        if self.position is not None and (isinstance(self.node, ast.stmt) or not parsed):
            held[self.position : self.position + 1] = parsed
            return
        expression = ast.parse(source, mode="eval").body
        if isinstance(self.node, ast.keyword):
            self.node.value = expression
        elif self.position is not None:
            held[self.position] = expression
        else:
            setattr(self.holder, self.field, expression)


def _parts(scope: ast.AST, part: str) -> Iterator[_Slot]:
    """Yield everything of one kind in a function, or at the top level of a module."""
    for holder in _walk(scope):
        for field in _FIELDS[part].get(type(holder), _FIELDS[part].get(ast.AST, ())):
            held = getattr(holder, field, None)
            for position, node in enumerate(held) if isinstance(held, list) else [(None, held)]:
                if isinstance(node, _PARTS) and not isinstance(node, _NOT_SIMPLE):
                    yield _Slot(holder, field, position, node)


def _walk(scope: ast.AST) -> Iterator[ast.AST]:
    yield scope
    for node in ast.iter_child_nodes(scope):
        if not (isinstance(scope, ast.Module) and isinstance(node, _DEFINITIONS)):
            yield from ast.walk(node)


def _functions(node: ast.AST, around: str = "") -> dict[str, ast.AST]:
    """Return every function by its qualified name, and the module itself under an empty one."""
    found = {} if around else {"": node}
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            found |= _functions(child, f"{around}{child.name}.")
            found[f"{around}{child.name}"] = child
    return found


def _mentioned(node: ast.AST) -> set[str]:
    """Return every name, attribute, argument and constant in a node."""
    found = set()
    for one in ast.walk(node):
        if isinstance(one, ast.Constant):
            found.add(str(one.value))
        else:
            texts = (getattr(one, field, None) for field in ("id", "attr", "arg", "name"))
            found |= {text for text in texts if isinstance(text, str)}
    return found


def _load() -> tuple[Mutant, ...]:
    found = []
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for rule, row in tomllib.loads(path.read_text()).items():
            place, by, guard = row.pop("in"), row.pop("by", None), row.pop("guard", SEEDS)
            [(part, names)] = row.items()
            by = _INSTEAD[part] if by is None else by
            found.append(Mutant(rule, place, part, tuple(names.split()), by, guard))
    return tuple(found)


MUTANTS = _load()
"""Every rule that is taken out, in the order of the tables."""
