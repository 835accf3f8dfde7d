"""Derivatives that take and return JAX's arrays, inside of `jax.jit` and `jax.vmap`, too: ``acc.jax.jacobian(f)``.

A call prepares the derivative for the shapes of its arguments once, while JAX traces the function around it. Later
calls run accumulus' own machine code. On the CPU, XLA calls it through its foreign-function interface, directly on its
buffers, for all points of a `jax.vmap` at once. Programs without a single machine-code function (loops over long
arrays, very long programs that are not compiled yet) are called in the same way, through a Python function that
receives the same buffers. On other devices, and where JAX differentiates the derivative again, the program is emitted
in JAX's operations.

The module has `jacobian`, `gradient`, `hessian`, the same with values (`value_and_jacobian`, `value_and_gradient`,
`value_gradient_hessian`), `hessian_of_lagrangian`, the products `jvp`, `vjp` and `hvp`, and `compile`, the function
without derivatives. Each takes a function `f` of NumPy or of JAX, and the names and options of the function of the same
name in `accumulus`, except `sparse`, `guards`, `dtype`, `target` and `assume`. The derivative is computed in double
precision if one of the arguments is, else in single precision. An `ArgumentError` is raised for one of these options
and, at the call, for arguments without numbers. A `TraceError` is raised at the call if `f` cannot be recorded. `f` is
recorded at a point between 0.5 and 1.5, since JAX has no values while it traces; therefore `f` cannot branch on values.

>>> import jax
>>> import jax.numpy as jnp
>>> import numpy as np
>>> import accumulus as acc
>>> def f(x):
...     return np.array([x[0] * x[1], x[0] + x[1] ** 2])
>>> @jax.jit
... def determinant(x):
...     return jnp.linalg.det(acc.jax.jacobian(f)(x))
>>> jax.vmap(determinant)(jnp.array([[1.0, 2.0], [0.0, 4.0]])).tolist()
[7.0, 32.0]
>>> curvature = acc.jax.hessian(lambda x: x[0] ** 2 * np.sin(x[1]))
>>> jax.vmap(curvature)(np.array([[1.0, 0.0], [2.0, 0.0]]))[:, 0, 1].tolist()
[2.0, 4.0]
>>> product = acc.jax.hvp(lambda x: np.sum(x**3))  # of primals and tangents
>>> jax.jit(product)((jnp.array([1.0, 2.0]),), (jnp.array([1.0, 0.5]),))[0].tolist()
[6.0, 6.0]
>>> x, cubes = np.array([1.0, 2.0]), lambda x: np.sum(x**3)
>>> acc.jax.compile(cubes)(x).tolist(), acc.jax.gradient(cubes)(x).tolist()
(9.0, [3.0, 12.0])
>>> [part.tolist() for part in acc.jax.value_gradient_hessian(cubes)(x)]
[9.0, [3.0, 12.0], [[6.0, 0.0], [0.0, 12.0]]]
>>> acc.jax.value_and_gradient(cubes)(x)[1].tolist(), acc.jax.value_and_jacobian(f)(x)[0].tolist()
([3.0, 12.0], [2.0, 5.0])
>>> acc.jax.jvp(f)((x,), (x,))[1].tolist(), [part.tolist() for part in acc.jax.vjp(f)((x,), x)[1]]
([4.0, 9.0], [[4.0, 9.0]])
>>> acc.jax.hessian_of_lagrangian(cubes, f)(x, 0.0, x).tolist()
[[0.0, 1.0], [1.0, 4.0]]
"""

from __future__ import annotations

import ctypes
import inspect
import math
import traceback
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, ParamSpec

import jax as jax_library
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from accumulus.api import jacobians, products
from accumulus.errors import ArgumentError
from accumulus.forks import Lock
from accumulus.frontends.calls import positions_of
from accumulus.frontends.kinds import Spread
from accumulus.frontends.location import name_of
from accumulus.programs.compiled_program import CompiledProgram
from accumulus.programs.derivative import Derivative
from accumulus.targets import Batch, Kernel
from accumulus.targets.jax_source import jax_function
from accumulus.targets.llvm.callers import ENTRIES, RUN, handler
from accumulus.targets.llvm.llvm_kernel import LLVMKernel

__all__ = [
    "compile",
    "gradient",
    "hessian",
    "hessian_of_lagrangian",
    "hvp",
    "jacobian",
    "jvp",
    "value_and_gradient",
    "value_and_jacobian",
    "value_gradient_hessian",
    "vjp",
]

P = ParamSpec("P")
Compute = Callable[..., tuple[Any, ...]]
#: Options that JAX's arguments determine, that return something other than JAX's arrays, or that are checked against
#: the values of arguments, which may be traced.
_EXCLUDED: Final = ("assume", "dtype", "guards", "sparse", "target")


def _inside(make: Callable[P, Derivative]) -> Callable[P, Callable[..., Any]]:
    """Wrap a function of accumulus so that its derivatives take and return JAX's arrays."""

    def inside(*arguments: P.args, **keywords: P.kwargs) -> Callable[..., Any]:
        options = dict[str, Any](keywords)
        if not arguments and "f" not in options:
            make()  # type: ignore[call-arg]  # raises the error that names the missing argument
        return _Inside(make, arguments or (options.pop("f"),), options)

    shown = inspect.signature(make)
    parameters = [
        parameter
        for parameter in shown.parameters.values()
        if parameter.name not in _EXCLUDED and parameter.kind is not inspect.Parameter.VAR_POSITIONAL
    ]
    vars(inside)["__signature__"] = shown.replace(parameters=parameters, return_annotation=Callable[..., Any])
    inside.__name__ = inside.__qualname__ = name_of(make)
    inside.__doc__ = f"`accumulus.{name_of(make)}` as a function of JAX's arrays, see `accumulus.jax`."
    return inside


jacobian = _inside(jacobians.jacobian)
value_and_jacobian = _inside(jacobians.value_and_jacobian)
gradient = _inside(jacobians.gradient)
value_and_gradient = _inside(jacobians.value_and_gradient)
hessian = _inside(jacobians.hessian)
value_gradient_hessian = _inside(jacobians.value_gradient_hessian)
hessian_of_lagrangian = _inside(jacobians.hessian_of_lagrangian)
jvp, vjp, hvp = _inside(products.jvp), _inside(products.vjp), _inside(products.hvp)
compile = _inside(jacobians.compile)  # noqa: A001  # named as in the field


class _Inside:
    """A derivative that takes JAX's arrays, including traced ones.

    Args:
        make: function of accumulus that makes the derivative.
        positional: positional arguments of that function, the user's function first.
        keywords: keyword arguments of that function.
    """

    def __init__(self, make: Callable[..., Derivative], positional: Sequence[Any], keywords: Any) -> None:
        if wrong := [name for name in _EXCLUDED if name in keywords]:
            raise ArgumentError(
                f"{wrong[0]} was given for a derivative inside of JAX; leave it out: results are dense arrays in the "
                "precision of the arguments, and decisions on values, and checks of them, are not supported"
            )
        static, names = keywords.get("static_argnums", ()), keywords.get("static_argnames", ())
        names = (names,) if isinstance(names, str) else names
        #: Positions and names of static arguments.
        self._static: tuple[int | str, ...] = (
            *((static,) if isinstance(static, int) else static),
            *positions_of(positional[0], names, "static_argnames"),
            *names,
        )
        self._make = partial(make, *positional, guards="error", **keywords)
        self._make()  # refuses invalid options at once
        self._derivatives: dict[str, Derivative] = {}
        #: Functions of JAX's arrays, by program; the key keeps the program alive.
        self._computes: dict[CompiledProgram, Compute] = {}
        self._lock = Lock()
        self.__wrapped__ = positional[0]

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return derivatives at one point."""
        count = len(arguments)
        static: set[int | str] = {
            k % count if isinstance(k, int) else k
            for k in self._static
            if not isinstance(k, int) or -count <= k < count
        }
        dynamic = [None if k in static else x for k, x in enumerate(arguments)]
        named = {name: None if name in static else x for name, x in keywords.items()}
        leaves, structure = jax_library.tree.flatten((dynamic, named))
        if not any(map(_is_number, leaves)):
            raise ArgumentError("a derivative inside of JAX was called without numbers; expected an array of JAX's")
        numbers = [x for x in leaves if _is_number(x)]
        dtype = str(jnp.result_type(float, *numbers))
        dtype = dtype if dtype == "float64" else "float32"
        examples = _examples([np.shape(x) for x in numbers])
        rest = iter(examples)
        filled = [next(rest) if _is_number(x) else x for x in leaves]
        by_position, by_keyword = jax_library.tree.unflatten(structure, filled)
        by_position = [arguments[k] if k in static else x for k, x in enumerate(by_position)]
        by_keyword |= {name: x for name, x in keywords.items() if name in static}
        with self._lock, jax_library.ensure_compile_time_eval():
            if dtype not in self._derivatives:
                self._derivatives[dtype] = self._make(dtype=dtype)
            program, required = self._derivatives[dtype].prepared(*by_position, **by_keyword)
            if program not in self._computes:
                self._computes[program] = _computed(program)
            compute = self._computes[program]
        values = [jnp.asarray(x, dtype) for x in numbers]
        results = compute(*_in_order(required, examples, values))
        return program.rebuilt(results)


def _is_number(leaf: Any) -> bool:
    if isinstance(leaf, bool | np.bool_ | str | bytes):
        return False
    kind = getattr(leaf, "dtype", None)
    return isinstance(leaf, int | float) or (kind is not None and jnp.issubdtype(kind, np.number))


def _examples(shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return arguments of these shapes, with distinct entries between 0.5 and 1.5."""
    numbers = Spread()
    return [numbers.uniform(0.5, 1.5, shape)[()] for shape in shapes]


def _in_order(required: Sequence[Any], examples: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return the values in the order in which a program takes them; `required` has the examples in that order."""
    ordered: list[Any] = []
    for number in required:
        same = next((k for k, example in enumerate(examples) if example is number), None)
        if same is not None:
            ordered.append(values[same])
            continue
        entries = np.concatenate([np.ravel(example) for example in examples])
        order = np.argsort(entries)
        places = order[np.searchsorted(entries, np.ravel(number), sorter=order)]
        flat = jnp.concatenate([value.reshape(-1) for value in values])
        ordered.append(flat[places].reshape(np.shape(number)))
    return ordered


def _computed(program: CompiledProgram) -> Compute:
    """Return a function from the numbers that a program takes to the arrays that it writes at one point."""
    kernel, tape = program.kernel, program.tape
    result_types = [jax_library.ShapeDtypeStruct((segment.length,), kernel.dtype) for segment in kernel.segments]
    emitted: Compute | None = None
    if tape.scalars is not None:
        emitted = jax_function(tape, kernel.segments, str(kernel.dtype))
    on_cpu = _called(kernel, result_types)

    def run(*x: Any) -> tuple[Any, ...]:
        if jax_library.default_backend() == "cpu":
            return on_cpu(*x)
        if emitted is None:
            raise ArgumentError(
                f"{program.name} works on long arrays; its derivatives are computed only on the CPU, and JAX computes "
                f"on {jax_library.default_backend()}"
            )
        results: tuple[Any, ...] = jax_library.lax.platform_dependent(*x, cpu=on_cpu, default=emitted)
        return results

    compute = jax_library.custom_jvp(run)

    def rule(x: tuple[Any, ...], directions: tuple[Any, ...]) -> Any:
        if emitted is None:
            raise ArgumentError(
                f"JAX cannot differentiate the derivatives of {program.name}, which works on long arrays. Write the "
                "function in JAX: accumulus differentiates jax.grad(f), too"
            )
        return jax_library.jvp(emitted, x, directions)

    compute.defjvp(rule)
    typed: Compute = compute
    return typed


def _called(kernel: Kernel, result_types: Sequence[Any]) -> Compute:
    """Return a function that calls a kernel through XLA."""
    longest = max(range(len(result_types)), key=lambda k: int(result_types[k].shape[0]), default=None)
    if longest is None or not result_types[longest].shape[0]:
        return lambda *_: tuple(jnp.zeros(form.shape, form.dtype) for form in result_types)
    if isinstance(kernel, LLVMKernel):
        address, owner = kernel.address(), kernel
    else:
        address, owner = _address_of(kernel)
    _KEPT_ALIVE.append(owner)  # JAX's compiled functions hold its address, which keeps nothing alive
    attributes = {RUN: np.int64(address), ENTRIES: np.int64(result_types[longest].shape[0])}
    name = _target(len(kernel.arguments), len(result_types), longest)
    call = jax_library.ffi.ffi_call(name, tuple(result_types), vmap_method="broadcast_all")
    return lambda *x: tuple(call(*x, **attributes))


_KEPT_ALIVE: Final[list[Any]] = []


@cache
def _target(arguments: int, results: int, longest: int) -> str:
    """Return the name under which the XLA handler for these numbers of arguments and results is registered in JAX."""
    name = f"accumulus_{arguments}_{results}_{longest}"
    address = ctypes.c_void_p(handler(arguments, results, longest))
    jax_library.ffi.register_ffi_target(name, jax_library.ffi.pycapsule(address), platform="cpu")
    return name


def _address_of(kernel: Kernel) -> tuple[int, Any]:
    """Return the address of a C callback that runs the kernel, like `LLVMKernel.address`, and the callback's owner."""
    lengths, inputs = [segment.length for segment in kernel.segments], len(kernel.arguments)
    shapes = [*kernel.arguments, *((length,) for length in lengths)]
    kind = np.ctypeslib.as_ctypes_type(kernel.dtype)

    def run(*arguments: Any) -> int:
        *addresses, first, last, points = arguments
        arrays: list[NDArray[Any]] = []
        for address, shape in zip(addresses, shapes, strict=True):
            size = points * math.prod(shape)
            memory = (kind * size).from_address(address) if size else b""
            arrays.append(np.frombuffer(memory, kernel.dtype).reshape(points, *shape))
        try:
            kernel.run(Batch(arrays[:inputs], arrays[inputs:], (False,) * inputs), first, last)
        except Exception:  # an exception cannot pass through XLA
            traceback.print_exc()
            return 1
        return 0

    pointers = [ctypes.c_void_p] * len(shapes)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, *[ctypes.c_int64] * 3)(run)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0), function
