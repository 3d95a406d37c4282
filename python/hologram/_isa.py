"""The Atlas instruction set as Python sees it: instructions, types, names and limits.

Generated from the instruction table by ``go generate ./isa/isadoc``; do not edit.
"""

# ruff: noqa: E501

from __future__ import annotations

from typing import Final, NamedTuple


class Operand(NamedTuple):
    """An operand of an instruction.

    ``kind`` is one of OPERAND_KINDS. ``type`` is the type of the value that it holds: the name of one, or "T" (the
    instruction's type), "FROM" (its source type), "int" (any integer of 32 or 64 bits), "named" (that of what is
    named), or "" where it holds none.
    """

    name: str
    kind: str
    type: str
    optional: bool = False


class Row(NamedTuple):
    """An instruction: its row of the table.

    ``types`` and ``sources`` are what may follow the mnemonic as type and source type; they are empty where it has
    none. ``can_fault`` says whether a launch may report a fault of it.
    """

    code: int
    signature: str
    doc: str
    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    has_condition: bool = False
    can_fault: bool = False


# What follows is tables, which ruff would give a line an item.
# fmt: off

NUM_REGISTERS: Final = 256  # r0 … r255
NUM_PREDICATES: Final = 16  # p0 … p15
FIRST_PRESET: Final = 252  # r252 … r255 are set at a lane's start, see PresetRegisters
MAX_INSTS: Final = 65536  # instructions as written
MAX_INLINED: Final = 65536  # instructions after calls are inlined
MAX_CALL_DEPTH: Final = 256
MAX_SLOTS: Final = 64
MAX_PARAMS: Final = 64
MAX_DATA_BYTES: Final = 1048576  # all constant tables together
MAX_SHARED_BYTES: Final = 49152
MAX_POOL_BYTES: Final = 16384  # all of a lane's scratch together
MAX_BLOCK_LANES: Final = 1024
MAX_RANK: Final = 8  # dimensions of an index space or a view
MAX_OPERATIONS: Final = 196608  # of the canonical form, with functions like EXP expanded
MAX_CONSTRUCTS: Final = 8192  # conditional branches, loops and places where branches meet, in called code for each call
MAX_CARRIED: Final = 262144  # values that branches and loops of the canonical form carry
MAX_NAME_LEN: Final = 255
MAX_FLAT_OFFSET: Final = 281474976710655  # of the constant in slot[flat reg + offset], either way
NUM_CLASSES: Final = 96
CLASS_BYTES: Final = 12288
PAGES_PER_CLASS: Final = 48
PAGE_BYTES: Final = 256
BOUNDARY_BYTES: Final = 1179648
MAX_OPERANDS: Final = 5  # the largest number of operands that a row has
MAX_LOOP_DEPTH: Final = 64  # how deep loops may nest, those of called code included
MAX_TABLES: Final = 1024  # how many constant tables a program may declare
BOUNDARY_SLOT: Final = "boundary"

# The numeric types, in the order of their codes.
TYPES: Final[tuple[str, ...]] = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64")

# The sizes of their values in bytes.
TYPE_SIZES: Final[dict[str, int]] = {
    "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "u16": 2, "u32": 4, "u64": 8, "f16": 2, "bf16": 2, "f32": 4,
    "f64": 8,
}

# Conditions of SET; those with u for unsigned types.
CONDITIONS: Final[tuple[str, ...]] = ("eq", "ne", "lt", "le", "gt", "ge", "ltu", "leu", "gtu", "geu")

# Of MEM_FENCE, from narrow to wide.
SCOPES: Final[tuple[str, ...]] = ("thread", "block", "device", "system")

# Special values and their types.
SPECIALS: Final[dict[str, str]] = {
    "lane.x": "u32", "lane.y": "u32", "lane.z": "u32", "block.x": "u32", "block.y": "u32", "block.z": "u32",
    "block_dim.x": "u32", "block_dim.y": "u32", "block_dim.z": "u32", "grid_dim.x": "u32", "grid_dim.y": "u32",
    "grid_dim.z": "u32", "global_lane": "u64", "n": "u64", "row": "u64", "column": "u64", "rows": "u64",
    "columns": "u64", "index.0": "u64", "index.1": "u64", "index.2": "u64", "index.3": "u64", "index.4": "u64",
    "index.5": "u64", "index.6": "u64", "index.7": "u64", "size.0": "u64", "size.1": "u64", "size.2": "u64",
    "size.3": "u64", "size.4": "u64", "size.5": "u64", "size.6": "u64", "size.7": "u64",
}

# Registers and the special value they start with.
PRESET_REGISTERS: Final[dict[str, str]] = {
    "r252": "lane.x", "r253": "block.x", "r254": "block_dim.x", "r255": "global_lane",
}

# Descriptions of the faults, by code.
FAULTS: Final[tuple[str, ...]] = (
    "none", "stray access", "integer division by zero", "out of fuel", "class or page out of range", "invalid handle",
)

# Not for slots, parameters, tables, registers.
RESERVED_NAMES: Final[tuple[str, ...]] = ("false", "index", "inf", "nan", "phi", "shared", "true")

OPERAND_KINDS: Final[tuple[str, ...]] = (
    "dst", "src", "src_reg", "pred_dst", "pred_src", "imm", "mem", "shared_mem", "any_mem", "label", "param", "data",
    "special", "scope",
)

# By mnemonic without suffixes.
ROWS: Final[dict[str, Row]] = {
    "ldg": Row(1, "ldg.T dst, addr", types=TYPES, can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "mem", "T")),
        doc="Load from a slot. A stray load gives 0 and is reported."),
    "stg": Row(2, "stg.T src, addr", types=TYPES, can_fault=True,
        operands=(Operand("src", "src", "T"), Operand("addr", "mem", "T")),
        doc="Store to a slot. A stray store is dropped and is reported."),
    "lds": Row(3, "lds.T dst, addr", types=TYPES, can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "shared_mem", "T")),
        doc="Load from the block's shared memory, which is zero when the block starts. Any byte address that fits will do."),
    "sts": Row(4, "sts.T src, addr", types=TYPES, can_fault=True,
        operands=(Operand("src", "src", "T"), Operand("addr", "shared_mem", "T")),
        doc="Store to the block's shared memory."),
    "mov": Row(5, "mov.T dst, src", types=(*TYPES, "pred"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="Copy a register or an immediate of the same type."),
    "mov_imm": Row(6, "mov_imm.T dst, bits", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("bits", "imm", "u64")),
        doc="Set a register to a bit pattern: the low bits of a 64-bit integer."),
    "cvt": Row(7, "cvt.T.FROM dst, src", types=TYPES, sources=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "FROM")),
        doc="Convert a number. Integer to integer truncates or extends; float to integer truncates toward zero, saturates, and gives 0 for NaN; everything else rounds once, to nearest even."),
    "bitcast": Row(8, "bitcast.T.FROM dst, src", types=TYPES, sources=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "FROM")),
        doc="Reinterpret the bits of a value of the same width. The bits of a NaN are not promised."),
    "ldp": Row(9, "ldp.T dst, param", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("param", "param", "T")),
        doc="Load a launch parameter."),
    "ldc": Row(10, "ldc.T dst, table[index]", types=TYPES, can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("table", "data", "T"), Operand("index", "src", "int")),
        doc="Load element index of a constant table, written table[index]. An index outside gives 0 and is reported."),
    "sreg": Row(11, "sreg dst, special",
        operands=(Operand("dst", "dst", "named"), Operand("special", "special", "")),
        doc="Read a special value: lane, block, block_dim, grid_dim in .x .y .z (u32), global_lane, n, row, column, rows, columns, and index, size in .0 … .7 (u64)."),
    "add": Row(12, "add.T dst, a, b", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="a + b. Integers wrap."),
    "sub": Row(13, "sub.T dst, a, b", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="a − b. Integers wrap."),
    "mul": Row(14, "mul.T dst, a, b", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="a · b. Integers wrap."),
    "mulhi": Row(15, "mulhi.T dst, a, b", types=("i32", "i64", "u32", "u64"),
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="The high half of the double-width product."),
    "div": Row(16, "div.T dst, a, b", types=TYPES, can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="a / b. Integers truncate toward zero; division by zero gives 0 and is reported; MIN / −1 wraps to MIN. Floats never fault."),
    "rem": Row(17, "rem.T dst, a, b", types=TYPES, can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="The remainder of truncating division, with the sign of a; exact. Integer division by zero gives 0 and is reported; MIN rem −1 is 0. Floats, as C's fmod, never fault."),
    "min": Row(18, "min.T dst, a, b", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="The smaller. NaN if either is NaN; −0 < +0."),
    "max": Row(19, "max.T dst, a, b", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="The larger. NaN if either is NaN; −0 < +0."),
    "mad": Row(20, "mad.T dst, a, b, c", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T"),
                  Operand("c", "src", "T")),
        doc="a · b + c with two roundings: exactly MUL, then ADD."),
    "fma": Row(21, "fma.T dst, a, b, c", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T"),
                  Operand("c", "src", "T")),
        doc="a · b + c with one rounding. In f16 and bf16: the f32 FMA, rounded once more."),
    "abs": Row(22, "abs.T dst, src", types=("i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The absolute value; wraps for the smallest integer."),
    "neg": Row(23, "neg.T dst, src", types=("i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The negative; wraps for the smallest integer; flips the sign of a zero."),
    "sqrt": Row(24, "sqrt.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The square root, correctly rounded; NaN below −0."),
    "floor": Row(25, "floor.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The largest integral value not above."),
    "ceil": Row(26, "ceil.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The smallest integral value not below."),
    "round": Row(27, "round.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The nearest integral value, ties to even."),
    "trunc": Row(28, "trunc.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The integral value next toward zero."),
    "and": Row(29, "and.T dst, a, b", types=("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "pred"),
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="Bitwise and."),
    "or": Row(30, "or.T dst, a, b", types=("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "pred"),
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="Bitwise or."),
    "xor": Row(31, "xor.T dst, a, b", types=("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "pred"),
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="Bitwise exclusive or."),
    "not": Row(32, "not.T dst, src", types=("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "pred"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="Bitwise not."),
    "shl": Row(33, "shl.T dst, a, b", types=("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="Shift left by the low bits of b: b mod width."),
    "shr": Row(34, "shr.T dst, a, b", types=("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="Shift right by b mod width; arithmetic iff the type is signed."),
    "popc": Row(35, "popc.T dst, src", types=("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The number of one bits."),
    "clz": Row(36, "clz.T dst, src", types=("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The number of leading zero bits; the width for 0."),
    "ctz": Row(37, "ctz.T dst, src", types=("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The number of trailing zero bits; the width for 0."),
    "set": Row(38, "set.COND.T pdst, a, b", types=TYPES, has_condition=True,
        operands=(Operand("pdst", "pred_dst", "pred"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="Compare: eq ne lt le gt ge, and ltu leu gtu geu for unsigned types alone. With a NaN only ne holds."),
    "sel": Row(39, "sel.T dst, pred, a, b", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("pred", "pred_src", "pred"), Operand("a", "src", "T"),
                  Operand("b", "src", "T")),
        doc="a if the predicate holds, else b."),
    "bra": Row(40, "bra label [, pred]",
        operands=(Operand("label", "label", ""), Operand("pred", "pred_src", "pred", optional=True)),
        doc="Branch, if the predicate holds or none is given. One that starts a new round of a loop costs a unit of fuel."),
    "call": Row(41, "call label",
        operands=(Operand("label", "label", ""),),
        doc="Run the instructions at label up to RET. Registers are shared. No recursion."),
    "ret": Row(42, "ret",
        doc="Return to after the CALL."),
    "loop": Row(43, "loop count, end",
        operands=(Operand("count", "src", "u32"), Operand("end", "label", "")),
        doc="Run the instructions up to end count times; 0 skips them. count is read once. A branch to end goes to the next round, one to elsewhere outside leaves the loop. A round costs one unit of fuel."),
    "exit": Row(44, "exit",
        doc="End the lane, which then counts as arrived at every barrier."),
    "bar_sync": Row(45, "bar_sync id",
        operands=(Operand("id", "imm", "u8"),),
        doc="Wait for all lanes of the block; orders their memory accesses."),
    "mem_fence": Row(46, "mem_fence scope",
        operands=(Operand("scope", "scope", ""),),
        doc="Order this lane's memory accesses as seen within the scope: thread, block, device or system."),
    "cls_get": Row(47, "cls_get dst",
        operands=(Operand("dst", "dst", "u8"),),
        doc="The class of the lane's block: block.x mod 96."),
    "mirror": Row(48, "mirror dst, class", can_fault=True,
        operands=(Operand("dst", "dst", "u8"), Operand("class", "src", "u8")),
        doc="The mirror class: class + 3 if ⌊class/3⌋ is even, else class − 3."),
    "unity_test": Row(49, "unity_test pdst, epsilon",
        operands=(Operand("pdst", "pred_dst", "pred"), Operand("epsilon", "imm", "f64")),
        doc="Whether the class of the lane's block is within epsilon of a class of the unity set {1, 4}; epsilon 0 tests membership."),
    "nbr_count": Row(50, "nbr_count dst, class", can_fault=True,
        operands=(Operand("dst", "dst", "u8"), Operand("class", "src", "u8")),
        doc="The number of neighbours of a class: 5 or 6."),
    "nbr_get": Row(51, "nbr_get dst, class, index", can_fault=True,
        operands=(Operand("dst", "dst", "u8"), Operand("class", "src", "u8"), Operand("index", "imm", "u8")),
        doc="Neighbour number index of a class, ascending; 0 if index is past the last."),
    "res_accum": Row(52, "res_accum class, value", can_fault=True,
        operands=(Operand("class", "src", "u8"), Operand("value", "src", "u64")),
        doc="Add to the launch's residue R[class], wrapping; the host reads it after the launch."),
    "phase_get": Row(53, "phase_get dst",
        operands=(Operand("dst", "dst", "u16"),),
        doc="The lane's phase, 0 … 767; it starts from the stream's."),
    "phase_adv": Row(54, "phase_adv delta",
        operands=(Operand("delta", "imm", "u16"),),
        doc="Advance the lane's phase, mod 768. Lane 0's final phase becomes the stream's."),
    "bound_map": Row(55, "bound_map dst, class, page, byte", can_fault=True,
        operands=(Operand("dst", "dst", "u64"), Operand("class", "src", "u8"), Operand("page", "src", "u8"),
                  Operand("byte", "src", "u8")),
        doc="The boundary pool's offset class·12288 + page·256 + byte; class ≥ 96 or page ≥ 48 gives 0 and is reported."),
    "reduce_add": Row(56, "reduce_add.T dst, src_base, count", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src_base", "src_reg", "T"), Operand("count", "imm", "u32")),
        doc="The sum of count registers from src_base on, in order: ((r0 + r1) + r2) + …; count ≥ 1."),
    "reduce_min": Row(57, "reduce_min.T dst, src_base, count", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src_base", "src_reg", "T"), Operand("count", "imm", "u32")),
        doc="The smallest of count registers, in order."),
    "reduce_max": Row(58, "reduce_max.T dst, src_base, count", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src_base", "src_reg", "T"), Operand("count", "imm", "u32")),
        doc="The largest of count registers, in order."),
    "reduce_mul": Row(59, "reduce_mul.T dst, src_base, count", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src_base", "src_reg", "T"), Operand("count", "imm", "u32")),
        doc="The product of count registers, in order."),
    "block_reduce_add": Row(60, "block_reduce_add.T dst, src", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The sum over the block's lanes: padded to a power of two with −0.0 or 0 and halved, s[q] += s[q+w]. f16 and bf16 add in f32 and round once at the end."),
    "block_reduce_min": Row(61, "block_reduce_min.T dst, src", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The smallest over the block's lanes, in the same order."),
    "block_reduce_max": Row(62, "block_reduce_max.T dst, src", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The largest over the block's lanes, in the same order."),
    "block_reduce_mul": Row(63, "block_reduce_mul.T dst, src", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The product over the block's lanes, in the same order and precision as the sum."),
    "block_scan_add": Row(64, "block_scan_add.T dst, src", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="Inclusive prefix sums over the block's lanes, x fastest, by Hillis–Steele: for w = 1, 2, 4 …, s[q] = s[q−w] + s[q] for q ≥ w. f16 and bf16 add in f32 and round once at the end."),
    "block_scan_min": Row(65, "block_scan_min.T dst, src", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="Inclusive prefix minima, in the same order."),
    "block_scan_max": Row(66, "block_scan_max.T dst, src", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="Inclusive prefix maxima, in the same order."),
    "block_scan_mul": Row(67, "block_scan_mul.T dst, src", types=TYPES,
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="Inclusive prefix products, in the same order and precision as the sums."),
    "atom_add": Row(68, "atom_add.T dst, addr, src", types=("i32", "i64", "u32", "u64", "f32", "f64"), can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "any_mem", "T"), Operand("src", "src", "T")),
        doc="Add to memory atomically; the result is the old value. The order of float additions is not promised."),
    "atom_min": Row(69, "atom_min.T dst, addr, src", types=("i32", "i64", "u32", "u64"), can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "any_mem", "T"), Operand("src", "src", "T")),
        doc="Atomic minimum; the result is the old value."),
    "atom_max": Row(70, "atom_max.T dst, addr, src", types=("i32", "i64", "u32", "u64"), can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "any_mem", "T"), Operand("src", "src", "T")),
        doc="Atomic maximum; the result is the old value."),
    "atom_and": Row(71, "atom_and.T dst, addr, src", types=("i32", "i64", "u32", "u64"), can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "any_mem", "T"), Operand("src", "src", "T")),
        doc="Atomic and; the result is the old value."),
    "atom_or": Row(72, "atom_or.T dst, addr, src", types=("i32", "i64", "u32", "u64"), can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "any_mem", "T"), Operand("src", "src", "T")),
        doc="Atomic or; the result is the old value."),
    "atom_xor": Row(73, "atom_xor.T dst, addr, src", types=("i32", "i64", "u32", "u64"), can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "any_mem", "T"), Operand("src", "src", "T")),
        doc="Atomic exclusive or; the result is the old value."),
    "atom_exch": Row(74, "atom_exch.T dst, addr, src", types=("i32", "i64", "u32", "u64"), can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "any_mem", "T"), Operand("src", "src", "T")),
        doc="Atomic exchange; the result is the old value."),
    "atom_cas": Row(75, "atom_cas.T dst, addr, expected, desired", types=("i32", "i64", "u32", "u64"), can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("addr", "any_mem", "T"), Operand("expected", "src", "T"),
                  Operand("desired", "src", "T")),
        doc="Store desired if memory holds expected, atomically; the result is the old value."),
    "exp": Row(76, "exp.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="e to the power of x."),
    "exp2": Row(77, "exp2.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="2 to the power of x."),
    "expm1": Row(78, "expm1.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="e^x − 1."),
    "log": Row(79, "log.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The natural logarithm."),
    "log2": Row(80, "log2.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The logarithm to base 2."),
    "log10": Row(81, "log10.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The logarithm to base 10."),
    "log1p": Row(82, "log1p.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The natural logarithm of 1 + x."),
    "rsqrt": Row(83, "rsqrt.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="1 / √x."),
    "sin": Row(84, "sin.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The sine of x in radians."),
    "cos": Row(85, "cos.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The cosine of x in radians."),
    "tan": Row(86, "tan.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The tangent of x in radians."),
    "tanh": Row(87, "tanh.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The hyperbolic tangent."),
    "sigmoid": Row(88, "sigmoid.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="1 / (1 + e^−x)."),
    "erf": Row(89, "erf.T dst, src", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("src", "src", "T")),
        doc="The error function."),
    "pow": Row(90, "pow.T dst, a, b", types=("f16", "bf16", "f32", "f64"),
        operands=(Operand("dst", "dst", "T"), Operand("a", "src", "T"), Operand("b", "src", "T")),
        doc="a to the power of b, with C's special values."),
    "pool_alloc": Row(91, "pool_alloc dst, size",
        operands=(Operand("dst", "dst", "u64"), Operand("size", "imm", "u64")),
        doc="A zeroed scratch area of size bytes, private to the lane, freed when the lane ends. The result is its handle, whose value is not promised. Run again, the instruction gives the same area, zeroed."),
    "pool_free": Row(92, "pool_free handle", can_fault=True,
        operands=(Operand("handle", "src", "u64"),),
        doc="Give a scratch area back; later use of the handle is a fault."),
    "pool_load": Row(93, "pool_load.T dst, handle, offset", types=TYPES, can_fault=True,
        operands=(Operand("dst", "dst", "T"), Operand("handle", "src", "u64"), Operand("offset", "src", "u64")),
        doc="Load from a scratch area at a byte offset."),
    "pool_store": Row(94, "pool_store.T src, handle, offset", types=TYPES, can_fault=True,
        operands=(Operand("src", "src", "T"), Operand("handle", "src", "u64"), Operand("offset", "src", "u64")),
        doc="Store to a scratch area at a byte offset."),
}
