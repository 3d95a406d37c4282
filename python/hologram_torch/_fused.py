"""Functions made of several operations, as one node of autograd and one call into the library each way.

The second call with tensors of some dtypes, shapes and strides is recorded, with its gradient: what the operations
asked of the library, on which views of the inputs and of fresh tensors. It is so until two recordings agree, since
signal handlers and finalizers may ask for more meanwhile; where none do, a later call is recorded. From then on such
calls repeat that in C (capi/python_sequence.c), without the Python between and with the same bits. So a function may
do nothing by what tensors hold, and nothing with torch but views and fresh tensors; inputs it may change where it
says so. A recording that meets anything else is given up, and the function called as ever; so it is where torch
redirects functions, autocast is on, or hooks see saved tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch
from torch import Tensor

from hologram._ffi import native
from hologram.errors import DTypeError, HologramError, ProgramFault
from hologram_torch._executors import executor_of
from hologram_torch._executors import here as threads
from hologram_torch._operation import PLAIN, applied, is_dynamo_compiling, is_grad_enabled, titled, unusual

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Fused"]

_MOST_SEEN = 256
"""How many different signatures a form remembers; beyond that it begins anew."""

_MOST_FORMS = 64
"""How many options a function has forms for; then the oldest form is given up."""

_MOST_INPUTS = 16
"""How many tensors a sequence takes and gives (capi/python_sequence.h)."""

_MOST_RECORDED = 3
"""How often a call is recorded until two in a row agree: what an operation does first of all may ask in other ways."""

_WITHOUT_MEMORY = ("DefaultCPUAllocator", "out of memory")
"""What the errors say by which torch's allocators but CUDA's tell that there is none."""

_HELD_BYTES = 1 << 20
"""How large an input may be that a node keeps for the gradient of the gradient alone."""

_set_grad_enabled = torch._C._set_grad_enabled
_saved_tensors_hooks = torch._C._autograd._top_saved_tensors_default_hooks

_Inputs = tuple[Optional[Tensor], ...]


class Fused:
    """A function of tensors, some of which may be None, and of options, that returns a fresh tensor.

    Args:
        name: Its name.
        function: The function, of the tensors and then the options.
        inputs: How many tensors it has, up to 16.
        written: The numbers of those that it changes in place, by calls of this library: neither its result nor its
            gradient depends on them.
    """

    def __init__(self, name: str, function: Callable[..., Tensor], inputs: int, written: Sequence[int] = ()) -> None:
        self.name = name
        self.function = function
        self.inputs = inputs
        self.written = tuple(written)
        self._forms: dict[tuple[Any, ...], _Form] = {}
        self._parameters = list(inspect.signature(function).parameters.values())

    def __call__(self, inputs: _Inputs, options: tuple[Any, ...] = ()) -> Tensor:
        """Compute the result; options must be hashable."""
        if is_dynamo_compiling():
            return self.function(*inputs, *options)
        form = self._forms.get(options)
        if form is not None:
            try:  # what most calls come down to
                found = form.known(threads.now, *inputs)
            except ProgramFault:
                return self.function(*inputs, *options)  # what the function makes of it
            if found is not None and type(found) is not _Node:
                return found
        if type(inputs[0]) not in PLAIN:
            self.check(inputs, options)
            return self.function(*inputs, *options)
        if form is None:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.pop(next(iter(self._forms)), None)
            form = self._forms[options] = _Form(self, options)
        try:
            found = form.known(executor_of(inputs[0]), *inputs)
            if found is None:
                self.check(inputs, options)
                return form.first(inputs)
            if type(found) is not _Node:
                return found
            if _saved_tensors_hooks(True) is None and not (found.large and found.keeps(inputs)):
                return _apply(found, *inputs)  # what C left
        except ProgramFault:
            pass
        return self.function(*inputs, *options)

    def each(self, inputs: Sequence[Tensor], options: tuple[Any, ...] = ()) -> list[Tensor]:
        """Compute the results of several tensors, each that of one."""
        form = self._forms.get(options)
        found: list[Any] = [None] * len(inputs)
        if form is not None and not is_dynamo_compiling():
            known, now = form.known, threads.now
            with contextlib.suppress(ProgramFault):
                found = [known(now, t) for t in inputs]
        return [
            self((t,), options) if result is None or type(result) is _Node else result
            for t, result in zip(inputs, found)
        ]

    def check(self, inputs: _Inputs, options: tuple[Any, ...]) -> None:
        """Refuse inputs that are no tensors, by their names; of functions with a parameter "what" that is theirs."""
        for value, parameter in zip(inputs, self._parameters):
            optional = value is None and str(parameter.annotation).startswith("Optional")
            if not optional and not isinstance(value, Tensor):
                names = [p.name for p in self._parameters]
                name = options[names.index("what") - self.inputs] if "what" in names else self.name
                raise TypeError(f"{name}: {parameter.name} is a {type(value).__name__}; expected a torch.Tensor")
            if value is not None and (value.is_nested or value.layout is not torch.strided):
                is_what = "is nested" if value.is_nested else f"has layout {value.layout}"
                hint = "to_padded_tensor(0)" if value.is_nested else "to_dense()"
                raise DTypeError(f"{self.name}: {parameter.name} {is_what}; expected a dense tensor: {hint}")


class _Seen:
    """What is remembered of a signature.

    Attributes:
        calls: How many calls with it were computed since it was last recorded.
        times: How often it was recorded: again where a full table gave it up, or it could not be.
    """

    __slots__ = ("calls", "times")

    def __init__(self) -> None:
        self.calls, self.times = 0, 0


class _Composed:
    """A function with its options, as its nodes have it.

    They have not what is known of it: that leads to them, by ways that Python's collector does not see.

    Attributes:
        name: The function's name.
        written: Of each input whether the function changes it.
    """

    def __init__(self, fused: Fused, options: tuple[Any, ...]) -> None:
        self.name = fused.name
        self._function = fused.function
        self._options = options
        self.written = tuple([i in fused.written for i in range(fused.inputs)])

    def compose(self, inputs: Sequence[Optional[Tensor]]) -> Tensor:
        """Call the function itself."""
        return self._function(*inputs, *self._options)

    def spared(self, inputs: Sequence[Optional[Tensor]]) -> _Inputs:
        """Return inputs with copies of those that the function changes, for calls that are to leave no trace."""
        return tuple([t.clone() if t is not None and changed else t for t, changed in zip(inputs, self.written)])


class _Form:
    """A function with its options, and what is known of it.

    Attributes:
        known: The table of what calls lead to: a result, or a node that records.
        composed: The function.
    """

    def __init__(self, fused: Fused, options: tuple[Any, ...]) -> None:
        self._seen: dict[tuple[Any, ...], _Seen] = {}
        self.known = native.torch_sequences(fused.name, fused.inputs)
        self.composed = _Composed(fused, options)

    def first(self, inputs: _Inputs) -> Tensor:
        """Compute what is not known, and find out whether it can be."""
        if unusual() or any(t is not None and type(t) not in PLAIN for t in inputs):
            return self.composed.compose(inputs)
        if torch._C._is_any_autocast_enabled() or torch.is_inference_mode_enabled():
            return self.composed.compose(inputs)
        if _saved_tensors_hooks(True) is not None or any(t is not None and t.layout != torch.strided for t in inputs):
            return self.composed.compose(inputs)
        recorded = is_grad_enabled()
        key = tuple(
            [None if t is None else (t.dtype, t.shape, t.stride(), recorded and t.requires_grad) for t in inputs]
        )
        seen = self._seen.get(key)
        if seen is None:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            seen = self._seen[key] = _Seen()
        seen.calls += 1
        # The second call, and what drives others out of a table or fails ever more seldom; but of inputs in one storage
        # nobody can tell which of them a call was made with.
        if seen.calls >= 2 ** max(seen.times, 1) and _apart(inputs):
            seen.calls, seen.times = 0, seen.times + 1
            self._learn(inputs)
        return self.composed.compose(inputs)

    def _learn(self, inputs: _Inputs) -> None:
        """Record calls with inputs, and their gradients if they need some, and know what two in a row did alike."""
        wanted = tuple([t is not None and is_grad_enabled() and t.requires_grad for t in inputs])
        if any(w and changed for w, changed in zip(wanted, self.composed.written)):
            return
        try:
            agreed, between = False, -1
            with torch.autograd.set_multithreading_enabled(False), torch.set_grad_enabled(True in wanted):
                for _ in range(_MOST_RECORDED):
                    leaves = _detached(self.composed.spared(inputs), wanted)
                    native.torch_record(True)
                    changed = [(t, t._version) for t, w in zip(leaves, self.composed.written) if w and t is not None]
                    result = self.composed.compose(leaves)
                    before, between = between, native.torch_recorded()
                    if not _all_seen(changed):
                        return
                    if True in wanted:
                        given = torch.ones_like(result)
                        try:
                            grads = torch.autograd.grad(
                                _Given.apply(result, given), [t for t in leaves if t is not None and t.requires_grad]
                            )
                        except RuntimeError as error:
                            if isinstance(error, (HologramError, torch.OutOfMemoryError)):
                                raise
                            return  # autograd has no gradient of it, which only a backward pass need tell
                    agreed = native.torch_agreed() and before == between
                    if agreed:
                        break
            if not agreed or not _is_whole():
                return
            if True not in wanted:
                _add(self.known, leaves, wanted, self.composed.written, None, 0, between, (result,))
                return
            leaves = _detached(leaves, (False,) * len(leaves))
            node = _node_of(self.composed, leaves, wanted, result.detach(), given, grads, between)
            if node is not None:
                _add(self.known, leaves, wanted, self.composed.written, node, 0, 0, ())
        except (torch.OutOfMemoryError, MemoryError):
            pass  # a recording takes more memory than the call, which comes next and may have enough
        except RuntimeError as error:
            if isinstance(error, HologramError) or not any(text in str(error) for text in _WITHOUT_MEMORY):
                raise
        finally:
            native.torch_record(False)


class _Given(torch.autograd.Function):
    """A number of which a tensor has the gradient that is given.

    To torch.autograd.grad none need be given then, whose shape it would check with sympy: importing that takes 0.4 s.
    """

    @staticmethod
    def forward(ctx: Any, result: Tensor, given: Tensor) -> Tensor:
        ctx.given = given
        return result.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Tensor) -> tuple[Tensor, None]:
        return ctx.given, None


def _detached(inputs: Sequence[Optional[Tensor]], wanted: Sequence[bool]) -> _Inputs:
    return tuple([None if t is None else t.detach().requires_grad_(w) for t, w in zip(inputs, wanted)])


def _viewed(inputs: Sequence[Optional[Tensor]], wanted: Sequence[bool]) -> _Inputs:
    """Return inputs with their history, of which none is another or depends on another of these."""
    return tuple([t.view_as(t) if w and t is not None else t for t, w in zip(inputs, wanted)])


def _apart(inputs: Sequence[Optional[Tensor]]) -> bool:
    """Whether all inputs have storages of their own; what has none is refused by the function."""
    try:
        storages = [t.untyped_storage().data_ptr() for t in inputs if t is not None]
    except (NotImplementedError, RuntimeError):
        return False
    return len(set(storages)) == len(storages)


def _add(table: Any, *arguments: Any) -> bool:
    return bool(native.torch_sequence_add(table.__self__, *arguments))


def _all_seen(changed: Sequence[tuple[Tensor, int]]) -> bool:
    """Whether torch alone has changed no input, of which versions were noted, as where it converts a result."""
    seen = {t.untyped_storage().data_ptr() for t, _ in native.torch_written()}
    return all(t._version == version or t.untyped_storage().data_ptr() in seen for t, version in changed)


def _is_whole() -> bool:
    """Whether a recording saw all that was written: torch counts that too."""
    return native.torch_recorded() >= 0 and all(t._version == count for t, count in native.torch_written())


@dataclasses.dataclass(eq=False)
class _Node(native.NodeBase):  # type: ignore[misc]
    """How calls with some signature are recorded by autograd, which C does (capi/python_node.c) where large is empty.

    Attributes:
        composed: What is called.
        wanted: Which inputs get gradients.
        kept: The numbers of the inputs that the gradient reads.
        held: Those of the others, which only the gradient of the gradient does.
        large: Those of these that are large: a result of other functions among them would be kept for nothing.
        shared: The place of the result among what is saved beside the inputs kept, or -1.
        saved: How much that is.
        forward: The table with the one sequence that leads to the result and what is to be saved.
        backward: The one that leads from the gradient by the result, the inputs kept, and what was saved.
    """

    composed: _Composed
    wanted: tuple[bool, ...]
    kept: list[int]
    held: list[int]
    large: list[int]
    shared: int
    saved: int
    forward: Any
    backward: Any

    def keeps(self, inputs: _Inputs) -> bool:
        """Whether a large input would be let go otherwise."""
        return any(t is not None and t.grad_fn is not None for t in [inputs[i] for i in self.large])

    def recomputed(self, ctx: Any, given: Tensor, recorded: bool) -> list[Optional[Tensor]]:
        """Return the gradients by the inputs, of the function called anew, and differentiable if recorded."""
        inputs: list[Optional[Tensor]] = [None] * len(self.wanted)
        for i, t in zip(self.kept, ctx.saved_tensors):
            inputs[i] = t
        for i, (t, seen, version) in zip(self.held, ctx.held):
            if seen._version != version and not self.composed.written[i]:
                raise RuntimeError(
                    f"{self.composed.name}: one of the variables needed for the gradient of the gradient has "
                    f"been modified by an inplace operation: input {i + 1} is at version {seen._version}; expected "
                    f"version {version}"
                )
            inputs[i] = t
        with torch.enable_grad():
            taken = self.composed.spared(_viewed(inputs, self.wanted) if recorded else _detached(inputs, self.wanted))
            of = [t for t, wanted in zip(taken, self.wanted) if wanted and t is not None]
            result = self.composed.compose(taken)
            return list(torch.autograd.grad(result, of, given, create_graph=recorded, allow_unused=True))


def _node_of(
    composed: _Composed,
    inputs: _Inputs,
    wanted: tuple[bool, ...],
    result: Tensor,
    given: Tensor,
    grads: Sequence[Tensor],
    between: int,
) -> Optional[_Node]:
    """Return a node of what was recorded, the forward pass up to between; None if it can't be."""
    end = native.torch_recorded()
    before, after = native.torch_uses(inputs, 0, between), native.torch_uses((given, *inputs), between, end)
    if before is None or before[1] or after is None:
        return None
    kept = [i for i, used in enumerate(after[0][1:]) if used]
    held = [i for i, t in enumerate(inputs) if t is not None and i not in kept]
    large = [i for i in held if getattr(inputs[i], "nbytes", 0) > _HELD_BYTES]
    saved = [t.detach().as_strided([t.numel()], [1], 0) for t in after[1]]  # whatever order it is in
    shared = next((i for i, t in enumerate(saved) if t.data_ptr() == result.data_ptr()), -1)
    if shared >= 0:
        saved[shared] = result
    extra = [t for t in saved if t is not result]
    reads = (given, *[inputs[i] for i in kept], *saved)
    if len(reads) > _MOST_INPUTS or 1 + len(extra) > _MOST_INPUTS:
        return None
    name = composed.name
    forward, backward = native.torch_sequences(name, len(inputs)), native.torch_sequences(f"{name}'", len(reads))
    untouched = (False,) * len(reads)
    if not _add(forward, inputs, (False,) * len(inputs), composed.written, None, 0, between, (result, *extra)):
        return None
    if not _add(backward, reads, untouched, untouched, None, between, end, tuple(grads)):
        return None
    node = _Node(composed, wanted, kept, held, large, shared, len(saved), forward, backward)
    if not large:
        tables = forward.__self__, backward.__self__
        native.torch_node(node, *tables, wanted, tuple(kept), tuple(held), shared, len(saved))
    return node


def _aside(t: Tensor, wanted: bool) -> tuple[Tensor, Tensor]:
    """Return what stands for an input that a node holds, and what has its version.

    Not the input itself: if it is changed in place by what depends on the node, it holds the node, and neither goes.
    A leaf that needs a gradient is none that autograd lets change so.
    """
    if not wanted:
        seen = t.detach()
        return seen, seen
    if t.grad_fn is None:
        return t, t
    try:
        _set_grad_enabled(True)
        # With the gradient that it has now, and no view, which would hold it.
        other = torch.unsafe_chunk(t, 1)[0] if t.ndim else t.clone()
    finally:
        _set_grad_enabled(False)
    return other, t.detach()


class _Recorded(torch.autograd.Function):
    """A call that autograd records: as C does it, and for what that leaves to Python."""

    @staticmethod
    def forward(ctx: Any, node: _Node, *inputs: Optional[Tensor]) -> Tensor:
        found = node.forward(executor_of(inputs[0]), *inputs)
        ctx.node, whole = node, found is not None
        if found is None:  # as where memory was short
            result, extra = node.composed.compose(inputs), []
        elif type(found) is tuple:
            result, *extra = found
        else:
            result, extra = found, []
        if node.shared >= 0 and whole:
            extra.insert(node.shared, result)
        ctx.save_for_backward(*[inputs[i] for i in node.kept], *extra)
        held: list[Any] = [inputs[i] for i in node.held]
        ctx.held = tuple([(*_aside(t, node.wanted[i]), t._version) for i, t in zip(node.held, held)])
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        node, (given,) = ctx.node, gradients
        grads, saved = None, ctx.saved_tensors
        if len(saved) == len(node.kept) + node.saved and not is_grad_enabled():
            given = given if given.is_contiguous() else given.contiguous()
            found = node.backward(executor_of(given), given, *saved)
            if found is not None:
                grads = list(found) if type(found) is tuple else [found]
        if grads is None:
            grads = node.recomputed(ctx, given, is_grad_enabled())
        rest = iter(grads)
        return (None, *[next(rest) if wanted else None for wanted in node.wanted])


_apply = applied(titled(_Recorded, "sequence"))


def _by_c() -> None:
    """Let C record calls, and compute their gradients."""
    recorded: Any = _Recorded
    given = (_saved_tensors_hooks, executor_of, _aside, recorded.forward, recorded.backward)
    apply = super(torch.autograd.Function, recorded).apply
    recorded.forward, recorded._backward_cls.apply = native.torch_nodes(recorded._backward_cls, apply, *given)


_by_c()
