"""Programs as Python packages: a wheel with a compiled library, its caller, and types, which requires only NumPy."""

from __future__ import annotations

import base64
import hashlib
import io
import keyword
import sysconfig
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from accumulus.cache import version_of
from accumulus.errors import ArgumentError
from accumulus.shipping import wheel_runtime
from accumulus.shipping.c_projects import CProject
from accumulus.show.tables import counted
from accumulus.text import printable

#: Fixed time of the files in a wheel, so that equal wheels have equal bytes.
_TIME: Final = (1980, 1, 1, 0, 0, 0)


def write_wheel(project: CProject, folder: Path, *, version: str, native: bool) -> Path:
    """Write the wheel of a program.

    Args:
        project: C project of the program.
        folder: folder for the wheel.
        version: version of the wheel.
        native: if True, use all instructions of this processor.

    Returns:
        The path of the wheel.

    Raises:
        ArgumentError: if results are in containers other than tuples, lists and dicts with text keys.
        CompileError: if there is no C compiler, or it fails.
    """
    name = project.name
    with tempfile.TemporaryDirectory(prefix="accumulus-") as scratch:
        library = Path(scratch, f"_{name}.so")
        project.library(library, native=native)
        compiled = library.read_bytes()
    modules = _modules(project, [_identifier(each, k) for k, each in enumerate(project.parameters)])
    tag = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    files: dict[str, bytes] = {
        **{f"{name}/{file}": text.encode() for file, text in modules.items()},
        f"{name}/_{name}.so": compiled,
        f"{name}/{name}.h": project.header.encode(),
    }
    if project.patterns:
        files[f"{name}/patterns.npz"] = _patterns(project)
    about = f"{name}-{version}.dist-info"
    made = version_of("accumulus")
    files |= {
        f"{about}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {_summary(project)}\n"
            f"Requires-Python: >=3.10\nRequires-Dist: numpy>=1.22\n"
        ).encode(),
        f"{about}/WHEEL": (
            f"Wheel-Version: 1.0\nGenerator: accumulus {made}\nRoot-Is-Purelib: false\nTag: {tag}\n"
        ).encode(),
    }
    files[f"{about}/RECORD"] = _record(files, about)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file, content in files.items():
            wheel.writestr(zipfile.ZipInfo(file, _TIME), content, zipfile.ZIP_DEFLATED)
    return path


def _record(files: dict[str, bytes], about: str) -> bytes:
    lines = [
        f"{file},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=').decode()},{len(content)}"
        for file, content in files.items()
    ]
    return "\n".join([*lines, f"{about}/RECORD,,", ""]).encode()


def _summary(project: CProject) -> str:
    program = project.program
    return printable(f"{program.kind.title} of {program.name}, {counted(program.operations, 'operation')}")


def _patterns(project: CProject) -> bytes:
    stream = io.BytesIO()
    tables = {name: np.stack([pattern.rows, pattern.columns]) for name, pattern in project.patterns.items()}
    np.savez_compressed(stream, allow_pickle=False, **tables)
    return stream.getvalue()


def _modules(project: CProject, parameters: Sequence[str]) -> dict[str, str]:
    """Return the text of each file of the package."""
    name, program = project.name, project.program
    results, listed = program._results, ", ".join(parameters)
    returned = "".join(f"{each}, " for each in project.names)
    # the structure of the results, with the number of each array in its place
    tree = results.maker(matrices=False)([np.array(k) for k in range(len(project.names))])
    made = _expression(tree, project.names)
    names = [*parameters, *project.names]
    if len(set(names)) < len(names):
        raise ArgumentError(f"arguments and results share names: {', '.join(names)}; rename the argument")
    shapes = dict(zip(project.names, results.shapes, strict=True))
    result_lines = [
        f"    {each}: {'nonzeros, at rows and columns PATTERNS' + repr([each]) if each in project.patterns else shape}"
        for each, shape in shapes.items()
    ]
    sparse = (
        [
            "",
            "#: Rows and columns of the nonzeros of sparse results.",
            'with np.load(Path(__file__).with_name("patterns.npz"), allow_pickle=False) as _found:',
            "    PATTERNS = {name: _found[name] for name in _found.files}",
        ]
        if project.patterns
        else []
    )
    imports = ["from pathlib import Path", "", *(["import numpy as np", ""] if sparse else [])]
    code = [
        f'"""{_summary(project)}.',
        "",
        f"Made by accumulus {version_of('accumulus')}. Results of one point, with their shapes:",
        "",
        *result_lines,
        '"""',
        "",
        *imports,
        f"from {name}._runtime import Function as _Function",
        "",
        f"__all__ = [{''.join(f'{each!r}, ' for each in (name, 'batch', *(['PATTERNS'] if sparse else [])))}]",
        *sparse,
        "",
        "_FUNCTION = _Function(",
        f'    str(Path(__file__).with_name("_{name}.so")),',
        f"    {name!r},",
        f"    {tuple(parameters)!r},",
        f"    {tuple(program._arguments.numeric_shapes)!r},",
        f"    {tuple(results.shapes)!r},",
        f"    {program.options.dtype!r},",
        f"    {program.is_guarded!r},",
        f"    {project.work!r},",
        ")",
        "",
    ]
    for function, method, where in (
        (name, "point", "at one point"),
        ("batch", "batch", "at many points, on the first axis of arguments and results"),
    ):
        code += [
            "",
            f"def {function}({listed}):",
            f'    """{_summary(project)}, {where}."""',
            f"    {returned}= _FUNCTION.{method}({listed})",
            f"    return {made}",
            "",
        ]
    number = f"np.{program.options.dtype}"
    types = [number if shape == () else f"NDArray[{number}]" for shape in results.shapes]
    arrays = [f"NDArray[{number}]"] * len(types)
    stub_parameters = ", ".join(f"{each}: ArrayLike" for each in parameters)
    stubs = [
        "import numpy as np",
        "from numpy.typing import ArrayLike, NDArray",
        "",
        *(["PATTERNS: dict[str, NDArray[np.int32]]"] if sparse else []),
        f"def {name}({stub_parameters}) -> {_type(tree, types)}: ...",
        f"def batch({stub_parameters}) -> {_type(tree, arrays)}: ...",
        "",
    ]
    runtime = Path(wheel_runtime.__file__).read_text(encoding="utf-8")
    return {"__init__.py": "\n".join(code), "__init__.pyi": "\n".join(stubs), "py.typed": "", "_runtime.py": runtime}


def _expression(tree: Any, names: Sequence[str]) -> str:
    """Return the source text of an expression that builds the results from their arrays."""
    if isinstance(tree, np.ndarray | np.generic):
        return names[int(tree)]
    if tree is None:
        return "None"
    if type(tree) is dict and all(isinstance(key, str) for key in tree):
        return f"{{{', '.join(f'{key!r}: {_expression(element, names)}' for key, element in tree.items())}}}"
    if type(tree) not in (list, tuple):
        raise ArgumentError(
            f"the results hold a {type(tree).__name__}; a wheel returns arrays in tuples, lists, and dicts with text "
            "for keys"
        )
    parts = [_expression(element, names) for element in tree]
    return f"[{', '.join(parts)}]" if type(tree) is list else f"({''.join(f'{element}, ' for element in parts)})"


def _type(tree: Any, types: Sequence[str]) -> str:
    """Return the source text of the type of results, after `_expression` has checked them."""
    if tree is None or isinstance(tree, np.ndarray | np.generic):
        return "None" if tree is None else types[int(tree)]
    if type(tree) is tuple:
        return f"tuple[{', '.join(_type(element, types) for element in tree) or '()'}]"
    held = tree if type(tree) is list else tree.values()
    several = " | ".join(dict.fromkeys(_type(element, types) for element in held)) or "object"
    return f"list[{several}]" if type(tree) is list else f"dict[str, {several}]"


def _identifier(name: str, k: int) -> str:
    """Return a parameter's name, or a name for its position if it is not a valid public one."""
    return name if name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_") else f"x{k}"
