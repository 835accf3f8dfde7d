"""Calls of ``float`` and ``complex`` in code that is not transformed.

Transformed code calls replacements of these builtins, and code that it calls is transformed, too. Python itself calls
other code: properties, operators, ``__getattr__`` and ``__float__``, functions that inspect their frame or have no
source. There ``float(x)`` calls ``x.__float__``, which has to return a plain number.

In such code the names ``float`` and ``complex`` are replaced where they are called. The other instructions, the lines
and the constants stay as they are, and no source is needed. ``eval`` and ``exec`` run text that is changed in the same
way. Functions get the new code for the time of a recording, and the original one afterwards.
"""

from __future__ import annotations

import builtins
import dis
import gc
import inspect
import sys
from collections.abc import Callable, Iterator, Set
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

from accumulus.frontends.location import RECORDED, codes_in, is_foreign, names_in

#: Prefix of the names of replacements, which are builtins of their own. No name in a program begins with it.
_PREFIX: Final = "@"
_CALLED: Final = ("float", "complex", "eval", "exec")
#: Functions that call their first argument for each item.
_CALLING: Final = ("map",)
#: From the instruction that loads a name to the one that marks it as called.
_TO_NULL: Final = 1 if sys.version_info >= (3, 13) else -1
#: Flags of `from __future__ import …` in code objects.
FUTURE: Final = 0x1FF0000
#: Changed code of functions → the original; with the file, since equal code objects may be of two files.
_ORIGINALS: Final[dict[tuple[CodeType, str], CodeType]] = {}


def original_code(function: FunctionType) -> CodeType:
    """Return the code of a function as its source has it."""
    code = function.__code__
    return _ORIGINALS.get((code, code.co_filename), code)


def install(to_float: Callable[..., Any], to_complex: Callable[..., Any]) -> None:
    """Make the replacements known to changed code, which may outlive a recording."""
    replacements = to_float, to_complex, _running("eval"), _running("exec")
    vars(builtins).update({_PREFIX + name: each for name, each in zip(_CALLED, replacements, strict=True)})


def _running(name: str) -> Callable[..., Any]:
    """Return a replacement of `eval` or `exec`, which runs changed text in the calling frame."""
    run = getattr(builtins, name)

    def function(source: Any, /, *scopes: Any, **keywords: Any) -> Any:
        caller = sys._getframe(1)
        if not isinstance(source, CodeType):
            if name == "eval" and isinstance(source, str | bytes):
                source = source.lstrip(" \t") if isinstance(source, str) else source.lstrip(b" \t")
            source = compile(source, "<string>", name, caller.f_code.co_flags & FUTURE, dont_inherit=True)
        if not scopes and not keywords:
            is_copied = caller.f_code.co_flags & inspect.CO_OPTIMIZED and type(caller.f_locals) is not dict
            scopes = caller.f_globals, dict(caller.f_locals) if is_copied else caller.f_locals  # from Python 3.13 on
        given = [*scopes, keywords.get("globals"), keywords.get("locals")]
        return run(converted_calls(source, *[each for each in given if each is not None]), *scopes, **keywords)

    return function


def is_convertible(code: CodeType, *scopes: Any) -> bool:
    """Return True if code calls a name that can be replaced where it runs."""
    return converted_calls(code, *scopes) is not code


def functions_like(frame: FrameType) -> Iterator[tuple[FunctionType, CodeType]]:
    """Yield the functions that can be changed in the files of a frame and its callers, each with its changed code.

    Callers are among them since they may make the function of the frame, by `exec` for example.
    """
    files, outer = set(), frame
    while outer.f_back is not None and outer.f_code.co_name != RECORDED:
        if not is_foreign(str(outer.f_globals.get("__name__"))):
            files.add(outer.f_code.co_filename)
        outer = outer.f_back
    frozen = gc.get_freeze_count() > 0
    if frozen:  # the collector does not list what was frozen
        gc.unfreeze()
    functions = [each for each in gc.get_objects() if type(each) is FunctionType]
    if frozen:
        gc.freeze()
    for function in functions:
        code, scope = function.__code__, function.__globals__
        if code.co_filename in files and (changed := converted_calls(code, scope)) is not code:
            pairs = zip(codes_in(changed), codes_in(code), strict=True)  # with those of functions that it makes
            _ORIGINALS.update({(new, new.co_filename): old for new, old in pairs})
            yield function, changed


def converted_calls(code: CodeType, *scopes: Any) -> CodeType:
    """Return code that calls the replacements in these scopes; the same object if it calls none of the names."""
    if any(type(each) is not dict for each in scopes):
        return code  # it may compute values of names
    held = [each.get("__builtins__", builtins) for each in scopes]
    if any(each is not builtins and each is not vars(builtins) for each in held):
        return code
    own = {name: getattr(builtins, name) for name in (*_CALLED, *_CALLING)}
    return _converted(code, {name for name in own if all(each.get(name, own[name]) is own[name] for each in scopes)})


def _converted(code: CodeType, called: Set[str]) -> CodeType:
    """Return code that calls the replacements of some names, which have no other meaning outside of the code."""
    if called.isdisjoint(names_in(code)):
        return code
    names, instructions = list(code.co_names), bytearray(code.co_code)
    found = [each for each in dis.get_instructions(code) if each.opcode in dis.hasname]
    own = called - {each.argval for each in found if each.opname in ("STORE_NAME", "STORE_GLOBAL")}
    inner = own if code.co_name == "<module>" else called  # functions do not see names of a class
    constants = tuple(_converted(each, inner) if isinstance(each, CodeType) else each for each in code.co_consts)
    calls = set(_calls(code, own))
    for name in [name for name in _CALLED if name in own]:
        places = [each for each in found if each.argval == name and each.offset in calls]
        if not places:
            continue
        if all(each.offset in calls for each in found if each.argval == name):
            names[names.index(name)] = _PREFIX + name
            continue
        names.append(_PREFIX + name)
        for each in places:
            shift = each.opname == "LOAD_GLOBAL"
            argument = (len(names) - 1) << shift | (each.arg or 0) & shift
            if argument > 0xFF:
                return code  # more names than an instruction without a prefix can refer to
            instructions[each.offset + 1] = argument
    if names == list(code.co_names) and all(a is b for a, b in zip(constants, code.co_consts, strict=True)):
        return code
    return code.replace(co_consts=constants, co_names=tuple(names), co_code=bytes(instructions))


def _calls(code: CodeType, own: Set[str]) -> Iterator[int]:
    """Yield the offsets of instructions that load one of some names which is called, or given to `map`."""
    instructions = list(dis.get_instructions(code))
    is_given = False  # the instruction before loads a function that calls its first argument
    for k, instruction in enumerate(instructions):
        if instruction.opname == "PUSH_NULL":
            continue
        is_name = instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and instruction.argval in own
        is_called = is_name and (
            bool((instruction.arg or 0) & 1)
            if instruction.opname == "LOAD_GLOBAL"
            else instructions[k + _TO_NULL].opname == "PUSH_NULL"  # in text that `eval` runs
        )
        if is_called or (is_given and is_name):
            yield instruction.offset
        is_given = is_called and instruction.argval in _CALLING
