"""Derivatives in files: ``acc.save`` and ``acc.load``.

A file has every program that a derivative has compiled: tapes, layouts of results, structures, guards. It has neither
the function nor any code that runs when the file is read. A loaded derivative is called like the saved one, but has
only the saved programs, since it cannot record the function for other arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from os import PathLike
from reprlib import repr as shortened
from typing import Any, Final, NoReturn

import numpy as np

from accumulus.cache import version_of
from accumulus.errors import AccumulusError, ArgumentError, CaseError, CompileError, FileError
from accumulus.frontends.calls import Restructured
from accumulus.frontends.trees import leaf_paths
from accumulus.programs.cases import Cases
from accumulus.programs.derivative import Derivative
from accumulus.programs.forms import Forms
from accumulus.programs.kinds import KINDS, in_tangent_spaces
from accumulus.programs.selection import Selection, key_of_examples
from accumulus.programs.watched import Watched
from accumulus.shipping.data_files import Arrays, Fields, read_data, write_data
from accumulus.shipping.program_data import (
    options_as_data,
    options_from_data,
    program_as_data,
    program_from_data,
)
from accumulus.shipping.structures import (
    AllowedClasses,
    Constants,
    constant_as_data,
    structure_as_data,
    structure_from_data,
)
from accumulus.text import printable

_EMPTY: Final = inspect.Parameter.empty


def save(derivative: Derivative, path: str | PathLike[str]) -> None:
    """Save the compiled programs of a derivative to a file that `load` reads.

    The file has one program for each shape of the arguments, and for each case of a function that decides on values. It
    does not contain the function. The file is the same for every machine.

    Args:
        derivative: derivative that `accumulus.jacobian` or a similar function returned.
        path: path of the file, which is written completely or not at all.

    Raises:
        ArgumentError: if the derivative has not been compiled, or if arguments or results contain objects that a file
            cannot store: objects other than numbers and text, and containers other than Python's own, named tuples,
            data classes and attrs classes.
        OpaqueError: if the derivative calls an opaque function (`accumulus.custom`).
        OSError: if the file cannot be written.

    >>> import numpy as np, tempfile, accumulus as acc
    >>> jac = acc.jacobian(lambda x: np.sin(x[0]) * x)
    >>> x = np.array([0.0, 2.0])
    >>> expected = jac(x)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     acc.save(jac, f"{folder}/jac.accumulus")
    ...     loaded = acc.load(f"{folder}/jac.accumulus")
    >>> np.array_equal(loaded(x), expected), loaded.batch(np.ones((100, 2))).shape
    (True, (100, 2, 2))
    """
    if not isinstance(derivative, Derivative):
        raise ArgumentError(
            f"save takes a derivative, such as acc.jacobian(f); a {type(derivative).__name__} was given (acc.save_plan "
            "takes a plan)"
        )
    forms = [each for each in (derivative, *derivative._inner.values()) if each._programs]
    if not forms:
        raise ArgumentError(
            f"{derivative.__name__} has no program yet; call it, or its compile(), with arguments of each shape that "
            "the file is to have a program for"
        )
    arrays, name = Arrays(), derivative._name
    data = {
        "accumulus": version_of("accumulus"),
        "name": name,
        "kind": derivative._kind.name,
        "title": derivative._kind.title,
        "signature": _signature_as_data(derivative, arrays),
        **_arguments_as_data(derivative),
        "options": options_as_data(derivative._options),
        "forms": [_form_as_data(form, name, arrays) for form in forms],
    }
    write_data(path, data, arrays)


def load(path: str | PathLike[str], *, classes: Iterable[type] = ()) -> Derivative:
    """Read a derivative from a file that `save` wrote.

    Nothing in the file is executed, and nothing is imported. Programs are compiled for this processor, or loaded from
    the cache, at their first call.

    Args:
        path: path of the file.
        classes: data classes, named tuples and enumerations that arguments and results need, if their modules are not
            imported, or are ``__main__``.

    Returns:
        The derivative, which is called like the saved one. A call with a shape or structure that was not saved raises
        an `ArgumentError`; a call at a point of a case that was not saved raises a `CaseError`.

    Raises:
        FileError: if the file is not a saved derivative, was changed, has another version, or needs an unknown class.
        CompileError: if its target does not work on this machine.
        OSError: if the file cannot be read.

    >>> import numpy as np, tempfile, accumulus as acc
    >>> gradient = acc.gradient(lambda x: x @ x)
    >>> _ = gradient.compile(np.ones(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     acc.save(gradient, f"{folder}/gradient.accumulus")
    ...     print(acc.load(f"{folder}/gradient.accumulus")(np.array([1.0, 2.0, 3.0])))
    [2. 4. 6.]
    """
    try:
        return _derivative(read_data(path), Constants(AllowedClasses(classes)))
    except FileError as error:
        raise error if str(path) in str(error) else FileError(f"{path}: {error}") from None
    except (CompileError, OSError):
        raise
    except (
        AccumulusError, ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError
    ) as error:  # fmt: skip
        raise FileError(f"{path} holds invalid data ({type(error).__name__}: {error}); save it again") from None


class SavedFunction:
    """Stand-in for the function of a loaded derivative, with its name and its signature.

    Args:
        name: name of the function.
        signature: signature of the function; None if it has none.
    """

    def __init__(self, name: str, signature: inspect.Signature | None) -> None:
        self.__name__ = name
        if signature is not None:
            self.__signature__ = signature

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Raise a `FileError`, since the function was not saved."""
        raise FileError(f"{self.__name__} itself was not saved, only the programs of its derivatives")


class SavedPrograms(Watched):
    """Stand-in for the recording of a function that was not saved: its programs are all that there is.

    Attributes:
        name: name of the derivative.
        programs: programs by shapes of arguments and values of constant ones; None for an unknown structure of
            arguments.
    """

    records = False

    def __init__(
        self, function: Callable[..., Any], name: str, programs: Mapping[Hashable, Cases] | None = None
    ) -> None:
        super().__init__(function)
        self.name, self.programs = name, programs

    def restructured(self, call: Callable[..., Any]) -> SavedPrograms:
        """Return the same for arguments of a structure for which there is no program."""
        return SavedPrograms(call, self.name)

    def record(self, examples: Sequence[Any], static: frozenset[int], *_: Any, **__: Any) -> NoReturn:
        """Raise the error for arguments, or for a case, without a program.

        Raises:
            ArgumentError: for arguments of another structure, or of other shapes.
            CaseError: for a point of a case that was not saved.
            FileError: if there is a program, and the function itself is asked for.
        """
        name, programs = self.name, self.programs
        if programs is None:
            raise ArgumentError(
                f"the file of {name} has no program for arguments of this structure; save it again after a call with "
                "such arguments"
            )
        cases = programs.get(key_of_examples(examples, static, name))
        if cases is None:
            shapes = [np.shape(x) for x in examples]
            saved_shapes = " or ".join(sorted({str(each.argument_shapes) for each in programs.values()}))
            raise ArgumentError(
                f"the file of {name} has no program for arguments of the shapes {shapes}, or for these constants; it "
                f"has one for {saved_shapes or 'other structures'}. Save it again after a call with such arguments"
            )
        if cases.at(examples) is not None:
            raise FileError(f"the function of {name} itself was not saved, only the programs of its derivatives")
        raise CaseError(
            f"the file of {name} has no program for the case of this point: the function takes a branch there that it "
            f"took at none of the points it was called with before it was saved ({len(cases.programs)} cases). Save it "
            "again after a call at this point"
        )


def _signature_as_data(function: Callable[..., Any], arrays: Arrays) -> Any:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    listed = []
    for each in parameters:
        data: dict[str, Any] = {"name": each.name, "kind": int(each.kind), "has_default": each.default is not _EMPTY}
        if each.default is not _EMPTY:
            try:
                data["default"] = constant_as_data(each.default, each.name, arrays)
            except ArgumentError:
                data["default"] = {"class": [SavedFunction.__module__, "_NotSaved"]}
        listed.append(data)
    return listed


class _NotSaved:
    """Stand-in for a default value that a file cannot store."""


def _signature(record: Fields, constants: Constants) -> inspect.Signature | None:
    if record.data.get("signature") is None:
        return None
    parameters = []
    for each in record.records("signature"):
        default = constants.read(each.data.get("default"), each) if each.truth("has_default") else _EMPTY
        kind = list(inspect._ParameterKind)[each.number("kind", most=4)]
        parameters.append(inspect.Parameter(each.text("name"), kind, default=default))
    return inspect.Signature(parameters)


def _arguments_as_data(derivative: Derivative) -> dict[str, Any]:
    """Return the differentiated arguments and the static ones as data."""
    forms = derivative._forms
    assert forms is not None  # derivatives without forms are internal
    differentiated = forms.differentiated
    alone = isinstance(differentiated, int | str)
    return {"alone": alone, "asked": [differentiated] if alone else list(differentiated), "static": list(forms.static)}  # type: ignore[arg-type]


def _form_as_data(form: Derivative, name: str, arrays: Arrays) -> dict[str, Any]:
    call: Any = form.__wrapped__
    data: dict[str, Any] = {"call": None}
    if isinstance(call, Restructured):
        call = call.user_call
        structures = [
            structure_as_data(structure, f"an argument of {name}", arrays)
            for structure in (*call.positional, *call.keywords.values())
        ]
        data["call"] = {"arguments": structures, "keywords": list(call.keywords), "names": list(call.names)}
    data["shapes"] = [
        {
            "key": constant_as_data(key, f"a constant argument of {name}", arrays),
            "programs": [program_as_data(program, arrays) for program in cases.programs],
        }
        for key, cases in form._programs.items()
    ]
    return data


def _derivative(record: Fields, constants: Constants) -> Derivative:
    """Return the derivative that a file describes."""
    name, options = printable(record.text("name")), options_from_data(record.record("options"))
    function = SavedFunction(name, _signature(record, constants))
    differentiated, static = (_argument_names(record, key) for key in ("asked", "static"))
    if record.truth("alone") and len(differentiated) != 1:
        raise FileError("the file lists several arguments to differentiate with respect to; expected one")
    forms = Forms(function, name, None, None, (), ())
    forms.differentiated, forms.static = differentiated[0] if record.truth("alone") else differentiated, static
    named = KINDS.get(record.text("kind"))
    kinds = () if named is None else (named, in_tangent_spaces(named))
    kind = next((each for each in kinds if each.title == record.text("title")), None)
    if kind is None:
        raise FileError(f"the file holds a {shortened(record.text('kind'))}; expected one of {', '.join(KINDS)}")
    saved = SavedPrograms(function, f"{kind.name}({name})")
    whole = Derivative(function, kind, forms, options, watched=saved)
    saved.programs = whole._programs
    for each in record.records("forms"):
        form = whole
        if each.data.get("call") is not None:
            call = _call(each.record("call"), function, constants)
            if call.key in whole._inner:
                raise FileError(f"{each.subject} is for arguments of the same structure as another")
            # the programs already select the differentiated arguments
            saved = saved.restructured(call)
            form = Derivative(call, kind, Selection((), call.parts[0]), options, watched=saved)
            saved.programs = form._programs
            whole._inner[call.key] = form
        for entry in each.records("shapes"):
            _add_programs(form, entry, constants)
        whole._last_form = form
    if not any(form._programs for form in (whole, *whole._inner.values())):
        raise FileError("there is no program in it; expected one")
    return whole


def _add_programs(form: Derivative, record: Fields, constants: Constants) -> None:
    """Add the programs for arguments of one shape to a derivative."""
    programs = tuple(
        [
            program_from_data(each, form._name, form._kind, form._options, constants)
            for each in record.records("programs")
        ]
    )
    if not programs or len({program.recording.argument_shapes for program in programs}) != 1:
        raise FileError(f"{record.subject} has no programs, or some for other arguments")
    if len(programs) > 1 and not all(program.is_guarded for program in programs):
        raise FileError(f"{record.subject} has several programs for one case")
    layouts: dict[Any, Any] = {}
    for program in programs if len(programs) > 1 else ():  # a batch stores the points of all cases in the arrays of one
        recording, results = program.recording, program._results
        patterns = results.fixed_patterns("a file")
        places = [(each.shape, each.rows.tobytes(), each.columns.tobytes()) for each in patterns]
        layout = results.structure, results.shapes, places
        if layouts.setdefault((recording.structure, recording.result_shapes), layout) != layout:
            raise FileError(f"{record.subject} has programs for one form of results that arrange them differently")
    cases = Cases(programs[0])
    cases.programs = cases.recent = programs
    key = constants.read(record.data.get("key"), record)
    shapes = cases.argument_shapes
    if (
        type(key) is not tuple
        or len(key) != len(shapes)
        or key in form._programs
        or any(shape not in (None, each) for shape, each in zip(shapes, key, strict=True))
    ):
        raise FileError(f"{record.subject} has a key that does not fit the shapes of its arguments")
    form._programs[key] = cases
    form._last = cases, programs[-1]


def _argument_names(record: Fields, name: str) -> tuple[int | str, ...]:
    places = record.items(name)
    if any(type(argument) not in (int, str) for argument in places):
        raise FileError(f"'{name}' is {shortened(places)}; expected positions and names of arguments")
    return tuple(places)


def _call(record: Fields, function: SavedFunction, constants: Constants) -> Restructured:
    arguments = [structure_from_data(each, record, constants) for each in record.items("arguments")]
    keywords, names = record.items("keywords"), record.items("names")
    if not all(isinstance(each, str) for each in (*keywords, *names)) or not len(keywords) <= len(arguments):
        raise FileError(f"{record.subject} has keywords or names that are not text")
    by_position = len(arguments) - len(keywords)
    named = dict(zip(keywords, arguments[by_position:], strict=True))
    call = Restructured(function, tuple(arguments[:by_position]), named, names)
    if len(call.parts) != len(arguments) or sum(1 for part in call.parts for _ in leaf_paths(part)) != len(names):
        raise FileError(f"{record.subject} has a keyword twice, or another number of names than of numbers")
    return call
