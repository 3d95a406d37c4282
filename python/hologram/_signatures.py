"""The functions of hologram.ops, from the descriptions that the library gives of its operations.

An operation has one function, or by its form two: what works on rows of a matrix has one that works on all elements of
its arrays as one row, and one with the ending _rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

# How the sizes of a call come about; the enumeration of capi/python_call.h.
GIVEN, COUNT, ONE_ROW = 0, 1, 2


# What a parameter of a kind is if it is not given.
_DEFAULTS = {"f": "False", "n": "None", "m": "None", "d": "None", "a": "None", "k": "False"}


class Parameter(NamedTuple):
    """A parameter of a function.

    Attributes:
        name: Its name.
        kind: "x" the executor, "r" an array that is read, "w" one that is written, "v" one that is made if it is left
            out, "o" the last of these, "s" a number, "d" a size of a matrix that its shape has if it is not given, "m"
            one of a product's, "f" a size that is a flag, "n" the optional number of elements, "a" axes, "k" whether
            these are kept.
        counted: Whether n, if it is not given, is at most this array's number of elements; of a number, whether it is
            given with an output alone.
        default: What a number is if it is not given.
    """

    name: str
    kind: str
    counted: bool = False
    default: Optional[float] = None


class Function(NamedTuple):
    """A function of hologram.ops.

    Attributes:
        name: Its name.
        number: The operation's number in the C ABI.
        operation: The operation's name, which errors of the library begin with.
        parameters: What it takes.
        positional: How many of these may be given by position.
        form: GIVEN, COUNT or ONE_ROW.
        elementwise: Whether it works element by element, on arrays that broadcast.
        numbers: Whether numbers may stand for arrays that are read, but for the masks and one.
        reduces: Whether the result is a number if neither an array for it nor axes are given. An array for it is
            returned.
        result: Whether it returns element 0 of its last array, if that is given by position, and no axes are.
        bools: Whether it makes bools, of bools at least.
        masks: The names of the arrays that are masks, whatever the dtype of the others.
        indices: The names of those that are indices, likewise.
        wider: Whether the last array may have a wider type, in which it is then computed: "sum", it may; "wider", if
            of integers; "", no.
        doc: What it does.
    """

    name: str
    number: int
    operation: str
    parameters: tuple[Parameter, ...]
    positional: int
    form: int
    elementwise: bool
    numbers: bool
    reduces: bool
    result: bool
    bools: bool
    masks: frozenset[str]
    indices: frozenset[str]
    wider: str
    doc: str

    @property
    def signature(self) -> str:
        """The signature as Python writes it.

        There the executor, which may be left out, has no default, nor has an array that may be where numbers follow.
        All take the stream to run on.
        """
        texts, needed = [], False
        for i, p in reversed([*enumerate(self.parameters)]):
            default = ("None" if p.kind in "vo" and not needed else None) or _DEFAULTS.get(p.kind)
            if p.default is not None:
                default = repr(float(p.default))
            needed = default is None
            texts.append(p.name if needed else f"{p.name}={default}")
            if i == self.positional:
                texts.append("*")
        texts.reverse()
        return f"({', '.join(texts + (['stream=None'] if '*' in texts else ['*', 'stream=None']))})"

    @property
    def stub(self) -> str:
        """The function as a stub file has it: with and without the executor, and an array for the result."""
        given, left = {"o": "Operand"}, {"o": "None"}
        axes = any(p.kind == "a" for p in self.parameters)
        forms = [(given, "Any" if self.reduces else "None")]
        if self.reduces:
            plain = {**left, "a": "None", "k": "Literal[False]"}
            forms = [(plain, "float"), *forms]
            if axes:
                forms += [(left, "Any")]
        elif any(p.kind == "o" for p in self.parameters):
            forms += [({**left, "r": "Array"}, "Array")]
            if any(p.kind == "v" for p in self.parameters):
                forms += [({**left, "r": "Array", "v": "None"}, "tuple[Array, ...]")]
            if self.numbers and sum(p.kind == "r" for p in self.parameters) > 1:
                forms += [({**left, "r": "Union[Operand, float]"}, "Any")]
        forms += [({"out": "Array"}, "Array")]  # the output by this name, which is returned
        texts = []
        for types, result in forms:
            for executor in (True, False):
                texts.append(f"def {self.name}({', '.join(self._typed(types, executor))}) -> {result}: ...")
        return "\n".join(f"@overload\n{text}" for text in texts)

    def _typed(self, types: dict[str, str], executor: bool) -> list[str]:
        """Return the parameters with types, some of them given by kind; the executor is first, or last and optional."""
        known = {"x": "Executor", "s": "float", "d": "Optional[int]", "f": "bool", "n": "Optional[int]"}
        known.update(m="Optional[int]", a="Union[None, int, tuple[int, ...]]", k="bool")
        known["r"] = "Union[Operand, float]" if self.numbers else "Operand"
        texts, named = [], False
        last = [p.name for p in self.parameters if p.kind in "wvo"][-1]
        for i, p in enumerate(self.parameters):
            if p.kind == "x" and not executor:
                continue
            if p.name == last and "out" in types:
                texts += ([] if named else ["*"]) + [f"out: {types['out']}"]
                named = True
                continue
            if i == self.positional and not named:
                texts.append("*")
                named = True
            kind = types.get(p.kind, known.get(p.kind, "Operand"))
            if p.kind == "r" and types.get("r") == "Array" and any("Array" in text for text in texts):
                kind = known["r"]  # the first one says what the result is
            if types.get(p.kind) == "None" and p.kind in "vo":
                if any(q.kind == "s" and q.default is None for q in self.parameters[i:]):
                    texts += [] if named else ["*"]
                    named = True
                    continue
                kind = "None = None"
            text = f"{p.name}: {kind}"
            default = _DEFAULTS.get(p.kind, None if p.default is None else repr(float(p.default)))
            texts.append(text if default is None else f"{text} = {default}")
        if not executor:
            texts += ([] if named else ["*"]) + ["ex: Optional[Executor] = None"]
            named = True
        return texts + ([] if named else ["*"]) + ["stream: Any = None"]


_N = Parameter("n", "n")
_ROWS = ("rows", "cols")


def functions(descriptions: list[dict[str, Any]]) -> list[Function]:
    """Return the functions of the operations that hologram_ops describes."""
    found = [function for description in descriptions for function in _of(description)]
    relu = next(f for f in found if f.name == "vector_relu")
    return [*found, relu._replace(name="relu", doc=f"{relu.doc} The same as vector_relu.")]


def _of(op: dict[str, Any]) -> list[Function]:
    rows, result = tuple(op["dims"]) == _ROWS, bool(op["scalar_result"])
    doc = op["doc"].rstrip(".") + "."
    scalars = [Parameter(s["name"], "s", s["of"] is not None, s["default"]) for s in op["scalars"]]

    reduces = bool(op["reduces"])
    operands = [o["name"] for o in op["operands"]]
    last = operands[-1]
    masks, indices = (frozenset(o["name"] for o in op["operands"] if o["kind"] == kind) for kind in ("mask", "index"))

    wider = op["operands"][-1]["kind"]
    wider = wider if wider in ("sum", "wider") else ""

    def arrays(counted: bool) -> list[Parameter]:
        # A number has an array of its own size; what is not reduced is as large as what it is made of. Where nothing is
        # read there is nothing that a result could be like.
        output = "o" if len(operands) > 1 else "w"
        return [
            *(Parameter(o["name"], "r" if o["reads"] else "v", counted) for o in op["operands"][:-1]),
            Parameter(last, output, counted and not reduces),
        ]

    def made(name: str, form: int, parameters: list[Parameter], positional: int, doc: str, **traits: bool) -> Function:
        all_of = (Parameter("ex", "x"), *parameters)
        elements = bool(op["elementwise"])
        known: dict[str, Any] = {"elementwise": elements, "numbers": elements, "reduces": reduces, "result": result}
        known["bools"] = bool(op["bools"]) or last in masks
        known.update(traits)
        if not known["reduces"]:
            doc += f" {last} given as out= is returned, else None."
        known.update(masks=masks, indices=indices, wider=wider)
        return Function(name, op["number"], op["name"], all_of, positional + 1, form, **known, doc=doc)

    needs = f" ({last}=None, or the numbers by name)" if any(s.default is None for s in scalars) else ""
    left = f" Without {last}{needs} return the result, which is what {operands[0]} is"
    left += ", of bools." if last in masks else "."
    beside = [o["name"] for o in op["operands"][:-1] if not o["reads"]]
    if beside:
        by_name = " (the numbers are given by name then)" if needs else ""
        left = f" {', '.join(beside)} and {last} may be left out{by_name}, and are returned then, several as a tuple."
    if op["elementwise"]:
        parameters = [*arrays(False), *scalars, _N]
        return [made(op["name"], GIVEN, parameters, len(parameters), doc + (left if len(operands) > 1 else ""))]
    if rows and len(operands) > 2:
        parameters = [*arrays(False), *scalars]
        if not op["axes"]:
            about = f"{doc} What is the same for all may be a number. Arrays may be strided.{left}"
            return [made(op["name"], GIVEN, parameters, len(parameters), about, numbers=True)]
        about = (
            f"{doc} With axis, a number or several, a row is what lies along these, without all is one row. What is no "
            f"row's broadcasts to {operands[0]}, in its order if it has as many dimensions, else with the "
            f"axes last, or is a number.{left}"
        )
        return [made(op["name"], GIVEN, [*parameters, Parameter("axis", "a")], len(parameters), about, numbers=True)]
    if rows or op["dims"] == ["n"]:
        first = "over the first n elements as one row" if rows else "over the first n elements"
        about = f"{doc} It works {first}, all without n."
        about += f" Without {last} return a number." if reduces else left
        if op["name"] == "cumsum":
            about += " Without axis the result has one dimension, as numpy's has."
        if result:
            about += f" With {last} by position, of at least 3 elements, {last}[0] is the result and returned."
        elif reduces:
            about += f" {last} is returned where it is given."
        parameters = [*arrays(True), _N]
        positional = len(parameters)
        if op["axes"]:
            about += " With axis, a number or several, a row is what lies along these"
            if reduces:
                about += (
                    ", and the result, an array that is not waited for, has the shape of the others; with keepdims it "
                    "has all, the axes' being 1"
                )
                parameters = [*parameters, Parameter("axis", "a"), Parameter("keepdims", "k")]
            else:
                about += f", and {last} has the shape of {operands[0]}"
                parameters = [*parameters, Parameter("axis", "a")]
            about += ". Arrays may be strided."
        if result:
            about += f" So it is with {last} by name, which may have one element, and is returned."
        found = [made(op["name"], ONE_ROW if rows else COUNT, parameters, positional, about)]
        if rows:
            parameters = [*arrays(False), *(Parameter(d, "d") for d in _ROWS)]
            about = (
                f"{doc} Without sizes {operands[0]} is a matrix, of any strides. With both it may be any contiguous "
                f"array, of which the first rows × cols elements are taken row-major.{left}"
            )
            found.append(
                made(op["name"] + "_rows", GIVEN, parameters, len(parameters), about, reduces=False, result=False)
            )
        return found
    vectors, as_rows = " (of x and y the last one)", ""
    if operands == ["a", "b", "c"]:
        vectors = ""
        as_rows = " A vector is one row of a or one column of b, which the result then has not, as in numpy.matmul."
    sizes = [Parameter(d, "f" if d.startswith("trans_") else "m") for d in op["dims"]]
    given = [*arrays(False), *(d for d in sizes if d.kind == "m")]
    named = [*(d for d in sizes if d.kind == "f"), *scalars]
    about = (
        f"{doc} Without sizes these are the last two dimensions of the arrays{vectors}, of any "
        f"strides, and those before them make stacks, to which all but the output broadcast.{as_rows} With sizes "
        "contiguous arrays are taken row-major; a matrix must have the shape that they say. With trans_x, x is stored "
        f"transposed. With beta 0 {last} isn't read.{left}"
    )
    return [made(op["name"], GIVEN, [*given, *named], len(given), about)]


_OF_LINEAR = "activation: Optional[Literal['relu', 'gelu', 'silu', 'sigmoid', 'tanh']] = None"
_FORMS_OF_LINEAR = tuple(
    f"@overload\ndef linear({ex}input: {kind}, weight: Operand, bias: Optional[Operand] = None, *, {_OF_LINEAR}, "
    f"{out}{named}) -> Array: ..."
    for kind, out in (("Array", "out: None = None"), ("Operand", "out: Array"))
    for ex, named in (("ex: Executor, ", ""), ("", ", ex: Optional[Executor] = None"))
)
LINEAR = "\n".join(_FORMS_OF_LINEAR)
"""The stub of what is made of operations (_linear.py)."""


def stub_file(found: list[Function]) -> str:
    """Return the text of ops.pyi."""
    lines = [
        "# Generated by python/stubs.py from the library's descriptions; do not edit.",
        "import array",
        "from typing import Any, Literal, Optional, Protocol, TypeVar, Union, overload",
        "",
        "import numpy as np",
        "",
        "from hologram.buffer import Buffer",
        "from hologram.executor import Executor",
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in sorted([*(f.name for f in found), "linear"])),
        "]",
        "",
        "class SupportsDLPack(Protocol):",
        "    def __dlpack__(self, *arguments: Any, **named: Any) -> Any: ...",
        "",
        "Operand = Union[Buffer, np.ndarray[Any, Any], SupportsDLPack, bytearray, memoryview, array.array[Any]]",
        'Array = TypeVar("Array", bound=Union[Buffer, np.ndarray[Any, Any], SupportsDLPack])',
        "",
        *(f.stub for f in found),
        LINEAR,
        "",
    ]
    return "\n".join(lines)
