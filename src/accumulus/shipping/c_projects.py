"""Programs as C: source, header, CMake file, and shared library."""

from __future__ import annotations

import platform
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from accumulus.errors import ArgumentError
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.targets.c.c_loops import LoopSource
from accumulus.targets.c.c_source import CSource
from accumulus.targets.c.c_target import shared_library
from accumulus.text import printable

if TYPE_CHECKING:
    from accumulus.programs.sparse import SparsePattern


#: Processor types of portable libraries: processors of the last ten years, with fused multiply-add.
_PROCESSORS: Final = {"x86_64": "x86-64-v3", "amd64": "x86-64-v3", "aarch64": "armv8-a", "arm64": "armv8-a"}
#: Instruction sets of these, by names that C compilers can test.
_FEATURES: Final = {"x86-64-v3": ("avx2", "fma", "bmi2")}
_CMAKE: Final = """\
cmake_minimum_required(VERSION 3.10)
project({name} C)

option(NATIVE "Compile for this processor alone" ON)
add_library({name} {name}.c)
set_target_properties({name} PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON)
target_include_directories({name} PUBLIC ${{CMAKE_CURRENT_SOURCE_DIR}})
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
if(NOT MSVC)
  # results depend on these
  target_compile_options({name} PRIVATE -O3 -ffp-contract=off -fno-math-errno -fno-trapping-math)
  target_link_libraries({name} PUBLIC m)
  if(NATIVE)
    target_compile_options({name} PRIVATE -march=native)
  endif()
endif()
"""


@dataclass(frozen=True)
class CProject:
    """A program as a C project.

    Attributes:
        name: name of its C function.
        program: compiled program of the function.
        parameters: names of its arguments.
        names: names of its result arrays.
        patterns: places of the nonzeros of sparse results, by name.
        source: C source.
    """

    name: str
    program: CompiledProgram
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    patterns: dict[str, SparsePattern]
    source: CSource | LoopSource

    @classmethod
    def of(cls, program: CompiledProgram, name: str, parameters: Sequence[str]) -> CProject:
        """Return the project of a program with these names of the function and its arguments.

        Raises:
            ArgumentError: if the name is not valid for a C function.
        """
        results, shown = program._results, program.array_names
        names = shown[: len(results.segments)]
        segments: Any = [replace(each, name=n) for each, n in zip(program.kernel.segments, shown, strict=True)]
        source = c_source_of(program, check_package_name(name), segments)
        patterns = results.fixed_patterns("a project in C")
        sparse = dict(zip(names[len(names) - len(patterns) :], patterns, strict=True))
        return cls(name, program, tuple(parameters), names, sparse, source)

    def write(self, folder: Path) -> list[Path]:
        """Write source, header and CMake file, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        files = {
            f"{self.name}.h": self.header,
            f"{self.name}.c": f'#include "{self.name}.h"\n\n{self.code}',
            "CMakeLists.txt": _CMAKE.format(name=self.name),
        }
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
        return [folder / file for file in files]

    def library(self, path: Path, *, native: bool) -> None:
        """Compile the shared library.

        Args:
            path: file to write.
            native: if True, use all instructions of this processor.

        Raises:
            CompileError: if there is no compiler, or it fails.
        """
        checks = (
            " && ".join(f'__builtin_cpu_supports("{each}")' for each in _FEATURES.get(_processor(native), ())) or "1"
        )
        # callers use this function before any other
        probe = f"\nint {self.name}_runs_here(void);\nint {self.name}_runs_here(void) {{ return {checks}; }}\n"
        compiled_library(f"{self.header}\n{self.code}{probe}", path, native=native)

    @property
    def work(self) -> int | None:
        """Number of entries in the work space of the functions; None if they need none, without loops."""
        return self.source.work if isinstance(self.source, LoopSource) else None

    @property
    def header(self) -> str:
        """The header: a summary, and declarations of the function and of the tables of nonzeros."""
        tables = [
            f"/* {axis} of the nonzeros of {result}, a matrix of {shape[0]} x {shape[1]} */\n"
            f"extern const int {self.name}_{result}_{axis}[{len(numbers)}];"
            for result, shape, axis, numbers in self._tables()
        ]
        program, arguments = self.program, ", ".join(f"a{k} is {name}" for k, name in enumerate(self.parameters))
        about = printable(f"{program.kind.title} of {program.name}{arguments and '; '}{arguments}").replace("*/", "* /")
        text = f"/* {about} */\n\n{self.source.header}"
        end = text.index("#ifdef __cplusplus\n}")
        return text if not tables else text[:end] + "\n".join(tables) + "\n\n" + text[end:]

    @property
    def code(self) -> str:
        """The functions and tables, which follow the header."""
        tables = [
            f"const int {self.name}_{result}_{axis}[{len(numbers)}] = {{{', '.join(map(str, numbers))}}};\n"
            for result, _, axis, numbers in self._tables()
        ]
        return "".join([self.source.code, *tables])

    def _tables(self) -> list[tuple[str, tuple[int, int], str, list[int]]]:
        return [
            (result, pattern.shape, axis, numbers.tolist())
            for result, pattern in self.patterns.items()
            for axis, numbers in (("rows", pattern.rows), ("columns", pattern.columns))
            if len(numbers)
        ]


def compiled_library(text: str, path: Path, *, native: bool) -> None:
    """Compile C to a shared library.

    Args:
        text: C source.
        path: file to write.
        native: if True, use all instructions of this processor.

    Raises:
        CompileError: if there is no compiler, or it fails.
    """
    with tempfile.TemporaryDirectory(prefix="accumulus-") as folder:
        made = Path(folder, path.name)
        shared_library(text, made, (f"-march={_processor(native)}",))
        shutil.copyfile(made, path)


def _processor(native: bool) -> str:
    """Return the processor type that libraries are compiled for."""
    portable = _PROCESSORS.get(platform.machine().lower())
    return "native" if native or portable is None else portable


def c_source_of(program: CompiledProgram, name: str, segments: Any, lanes: int = 0) -> CSource | LoopSource:
    """Return the C source of a program.

    Args:
        program: compiled program.
        name: name of its function in C.
        segments: result arrays: the kernel's, or other selections of its outputs.
        lanes: as for `LoopSource`.
    """
    unit = program.code.expanded().unit(segments, program._arguments.numeric_shapes, program.options.dtype)
    return CSource(unit, name) if unit.maps is None else LoopSource(unit, name, lanes=lanes)


def check_package_name(name: str) -> str:
    """Return the name; raise `ArgumentError` if it is not valid for both a C function and a Python package."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ArgumentError(
            f"the name is {name!r}; expected lower-case letters, digits and _, beginning with a letter (--name gives "
            "one)"
        )
    return name
