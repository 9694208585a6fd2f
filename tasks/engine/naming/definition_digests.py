"""Collect all definitions that a definition depends on, with a digest of each one's code.

The analysis uses only the text of modules and runs nothing. A definition is a function, a class with all its methods, or a
module's name binding; it depends on every name in its body, decorators and annotations. The digest covers the syntax tree
without comments, docstrings and formatting, and is the same in every Python from 3.11 on.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from factmill.tasks.core.digests import digest_bytes
from factmill.tasks.errors import BuildError

MODULE_STATEMENTS = "(statements)"
"""Name for a module's statements that bind no names: loops, calls, checks."""
_ROW_DECIDING_FIELDS = frozenset((
    "benchmark", "cluster_column", "combine_tables", "completion_format", "compute_metrics", "fetch_from_wiki",
    "group_columns", "inputs_model", "judging_spec", "label_scheme", "list_gold_answers", "load_from_graph",
    "look_up", "make_dialogue", "make_guesser", "make_oracle", "make_prompt", "make_questions", "metric_name",
    "parse_body", "prediction_model", "prompt", "question_column", "question_model", "read_answer",
    "resolve_inputs", "score", "score_predictions", "sparql", "tables", "unit",
))  # fmt: skip
"""Fields of a record (benchmark, evaluation and its parts, operation) that affect rows; others affect only their display."""
_COMPOUND = (ast.For, ast.While, ast.With, ast.If, ast.Try, ast.Match)
_RECORD_CLASSES = frozenset({"Benchmark", "Evaluation", "Operation", "make_closed_book_evaluation"})
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class DigestedCodeDependencies:
    """Everything that some definitions depend on."""

    digests: Mapping[str, Mapping[str, str]]
    """Module → definition → digest of its code; both sorted."""
    packages: frozenset[str]
    """Packages of factmill that are used and count by version, so their definitions have no digest."""
    libraries: frozenset[str]
    """Top-level module names of third-party libraries, without the standard library."""


@dataclass(slots=True)
class _ModuleNames:
    """Names that a module defines and imports."""

    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """Name → (module, name in it; None for the module itself)."""


def collect_code_dependencies(
    starts: Iterable[tuple[str, str]],
    code: Mapping[str, str],
    package_of: Callable[[str], str | None],
    traversed: frozenset[str] = frozenset(),
) -> DigestedCodeDependencies:
    """Return everything that these definitions, given as (module, name), depend on, including themselves.

    `code`: dotted name → text; a package's own module is called `package.__init__`. `package_of`: module → "" if its
    definitions count, the name of its package if that counts by version, None if it does not count. `traversed`: packages
    that count by version but are followed all the same, to our definitions that they use. BuildError for an unknown
    definition.
    """
    todo = [(module, name) for module, name in starts]
    if missing := [
        each
        for each in todo
        if each[0] not in code or each[1] not in _parse_definitions_and_imports(each[0], code[each[0]]).definitions
    ]:
        raise BuildError(f"no definition {':'.join(missing[0])}; a build's id depends on it")
    found: dict[str, dict[str, str]] = {}
    packages, libraries = set[str](), set[str]()
    asked: set[tuple[str, str]] = set()
    while todo:
        module, name = todo.pop()
        if (module, name) in asked:
            continue
        asked.add((module, name))
        if module not in code and f"{module}.__init__" in code:
            module = f"{module}.__init__"
        if module not in code:
            libraries.add(module.partition(".")[0])
            continue
        package = package_of(module.removesuffix(".__init__"))
        if package:
            packages.add(package)
        if package is None or (package and package not in traversed):
            continue
        names = _parse_definitions_and_imports(module, code[module])
        if name in names.imports:
            todo.append(_get_import_binding(*names.imports[name], code))
        elif name in names.definitions:
            digest, mentioned = _digest_definition_and_list_names(module, code[module], name)
            resolved = [_resolve_dotted_name(each, module, names, code) for each in mentioned]
            if package:
                resolved = [each for each in resolved if code.keys() & {each[0], f"{each[0]}.__init__"}]
            else:
                imported = [
                    f"{'.'.join(each)} = {_format_origin_module_and_name(*meant, code, package_of)}"
                    for each, meant in zip(mentioned, resolved, strict=True)
                    if each[0] in names.imports
                ]
                found.setdefault(module, {})[name] = digest_bytes("\n".join([digest, *imported]).encode())[:_DIGITS]
            todo += [*resolved, (module, MODULE_STATEMENTS)]
        elif name == "*":
            todo += [(module, each) for each in (*names.definitions, *names.imports)]
    return DigestedCodeDependencies(
        {module: dict(sorted(found[module].items())) for module in sorted(found)},
        frozenset(packages),
        frozenset(libraries - sys.stdlib_module_names),
    )


def _resolve_dotted_name(
    dotted_name: tuple[str, ...], module: str, names: _ModuleNames, code: Mapping[str, str]
) -> tuple[str, str]:
    """Return the definition, as (module, name), of a dotted name; an unbound name of this module is a builtin."""
    first, *more = dotted_name
    if first not in names.imports:
        return module, first
    source, name = _get_import_binding(*names.imports[first], code)
    while name == "*" and more:
        # a name in a module, which may be a module itself
        source, name = _get_import_binding(source, more.pop(0), code)
    return source, name


def _get_import_binding(source: str, name: str | None, code: Mapping[str, str]) -> tuple[str, str]:
    """Return what an import binds, as (module, name); name is `*` for a whole module."""
    if name is None:
        return source, "*"
    inner = f"{source}.{name}"
    return (inner, "*") if code.keys() & {inner, f"{inner}.__init__"} else (source, name)


def _format_origin_module_and_name(
    module: str, name: str, code: Mapping[str, str], package_of: Callable[[str], str | None]
) -> str:
    """Return an imported name's origin as `module:name`, or `package:name` if its package counts by version."""
    passed: set[tuple[str, str]] = set()
    while module in code and (module, name) not in passed:
        imports = _parse_definitions_and_imports(module, code[module]).imports
        if name not in imports:
            break
        passed.add((module, name))
        module, name = _get_import_binding(*imports[name], code)
    package = package_of(module) if code.keys() & {module, f"{module}.__init__"} else ""
    return f"{module if package == '' else package}:{name}"


@cache
def _digest_definition_and_list_names(module: str, text: str, name: str) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """Return the digest of a definition's syntax tree, and the dotted names in it, sorted."""
    statements = _parse_definitions_and_imports(module, text).definitions[name]
    described = "\n".join(map(_format_syntax_tree, statements))
    mentioned = {each for one in statements for each in _iterate_dotted_names(one)}
    return digest_bytes(described.encode()), tuple(sorted(mentioned))


@cache
def _parse_definitions_and_imports(module: str, text: str) -> _ModuleNames:
    found = _ModuleNames()
    for statement in ast.parse(text).body:
        _collect_definitions_and_imports(module, statement, found)
    for statements in list(found.definitions.values()):
        for node in (inner for each in statements for inner in ast.walk(each)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                # an import inside a function is assumed to mean the same in the whole module
                for name, meant in _list_imports(module, node):
                    found.imports.setdefault(name, meant)
    return found


def _collect_definitions_and_imports(module: str, statement: ast.stmt, found: _ModuleNames) -> None:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        found.imports.update(_list_imports(module, statement))
        return
    if isinstance(statement, ast.If | ast.Try) and all(
        isinstance(each, ast.Import | ast.ImportFrom | ast.Pass) for each in statement.body
    ):
        # imports only for types, or of optional libraries
        for each in statement.body:
            _collect_definitions_and_imports(module, each, found)
    if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Call):
        called = statement.value
        if isinstance(called.func, ast.Name) and called.func.id in _RECORD_CLASSES:
            called.keywords = [each for each in called.keywords if each.arg in _ROW_DECIDING_FIELDS]
    bound = _list_bound_names(statement)
    if not _is_docstring(statement):
        # a loop may change names that other statements bind
        for name in dict.fromkeys(
            bound if bound and not isinstance(statement, _COMPOUND) else [*bound, MODULE_STATEMENTS]
        ):
            found.definitions.setdefault(name, []).append(statement)


def _list_imports(module: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str | None]]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            package = alias.name if alias.asname else alias.name.partition(".")[0]
            yield alias.asname or package, (package, None)
        return
    above = module.split(".")[: -node.level] if node.level else []
    source = ".".join([*above, *filter(None, [node.module])])
    for alias in node.names:
        yield alias.asname or alias.name, (source, alias.name)


def _list_bound_names(statement: ast.stmt) -> list[str]:
    """Return the names that a module-level statement binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        # an assignment into an object (`table["x"] = …`) belongs to that object's name
        return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    inner = (node.name for node in ast.walk(statement) if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return [*(node.id for node in stored), *inner]


def _iterate_dotted_names(definition: ast.stmt) -> Iterator[tuple[str, ...]]:
    """Yield the dotted names in a definition, including those in quoted annotations."""
    todo: list[ast.AST] = [definition]
    while todo:
        node = todo.pop()
        parts: list[str] = []
        inner = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name):
            yield (inner.id, *parts)
        else:
            todo += [inner] if inner is not node else ast.iter_child_nodes(node)
        for quoted in _iterate_quoted_annotations(node):
            yield from _iterate_dotted_names(quoted)


def _iterate_quoted_annotations(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the parsed quoted annotations of a node."""
    for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
        for part in ast.walk(annotation) if annotation else ():
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                try:
                    yield from ast.parse(part.value).body
                except SyntaxError:  # a Literal with other text
                    continue


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _format_syntax_tree(node: Any) -> str:
    """Return a syntax tree as text, without docstrings, positions and empty fields."""
    if isinstance(node, list):
        return f"[{','.join(_format_syntax_tree(each) for each in node if not isinstance(each, ast.stmt) or not _is_docstring(each))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.JoinedStr):
        parts: list[str] = []
        text = ""
        for part in node.values:
            if isinstance(part, ast.Constant):  # join adjacent constants: Python 3.12 splits them differently
                text += str(part.value)
                continue
            parts += [repr(text), _format_syntax_tree(part)]
            text = ""
        return f"JoinedStr({','.join([*parts, repr(text)])})"
    fields = ((name, value) for name, value in ast.iter_fields(node) if value not in (None, []) or name == "value")
    skipped = ("ctx", "kind", "type_comment")
    formatted = ",".join(f"{name}={_format_syntax_tree(value)}" for name, value in fields if name not in skipped)
    return f"{type(node).__name__}({formatted})"
