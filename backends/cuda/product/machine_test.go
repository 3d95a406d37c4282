package product_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// machine runs what product writes, without a GPU: a block's threads go through
// the text together, one instruction after the other, so control must be the same
// in all of them. It sees to what such a machine would not: a copy is there only
// after the wait for its group, and what a thread has put into shared memory others
// may read, or overwrite, only after a barrier.
type machine struct {
	code   []instruction
	labels map[string]int
	names  map[string]int // registers, from 1 on
	launch []byte
	global map[uint64][]byte // by the first address
	shared []byte
	grid   [3]uint32
}

type instruction struct {
	guard int // register; 0: none
	op    string
	parts []string // of op
	typ   string   // the last of them
	size  int      // of a value of that type
	args  []operand
	text  string
}

// operand is a register, a number, a place in memory, or several registers.
type operand struct {
	reg    int // 0: none
	number uint64
	text   string
	list   []int
}

// owner is who had a byte of shared memory last, and in which interval between barriers.
type owner struct {
	thread, epoch int
	several       bool // read by several
}

type thread struct {
	regs    []uint64
	known   []bool     // registers that have a value
	pending [][]func() // groups of copies
	open    []func()
}

var registerLine = regexp.MustCompile(`^\.reg `)

func newMachine(text string) *machine {
	m := &machine{labels: map[string]int{}, names: map[string]int{}, global: map[uint64][]byte{}}
	_, body, _ := strings.Cut(text, "{\n")
	for _, line := range strings.Split(body, "\n") {
		line, _, _ = strings.Cut(line, "//")
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line == "}" || registerLine.MatchString(line):
			continue
		case strings.HasSuffix(line, ":"):
			m.labels[strings.TrimSuffix(line, ":")] = len(m.code)
			continue
		}
		in := instruction{text: line}
		line = strings.TrimSuffix(line, ";")
		if strings.HasPrefix(line, "@") {
			guard, rest, _ := strings.Cut(line[1:], " ")
			in.guard, line = m.register(guard), rest
		}
		in.op, line, _ = strings.Cut(line, " ")
		in.parts = strings.Split(in.op, ".")
		in.typ = in.parts[len(in.parts)-1]
		in.size = sizes[in.typ]
		depth, from := 0, 0
		for i, c := range line + "," {
			switch c {
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			case ',':
				if depth == 0 {
					if a := strings.TrimSpace((line + ",")[from:i]); a != "" {
						in.args = append(in.args, m.operand(a, in.op))
					}
					from = i + 1
				}
			}
		}
		m.code = append(m.code, in)
	}
	return m
}

var sizes = map[string]int{"b16": 2, "u16": 2, "f16": 2, "bf16": 2, "u32": 4, "s32": 4, "b32": 4, "f32": 4, "u64": 8, "s64": 8, "b64": 8, "f64": 8}

func (m *machine) register(name string) int {
	n, ok := m.names[name]
	if !ok {
		n = len(m.names) + 1
		m.names[name] = n
	}
	return n
}

func (m *machine) operand(arg, op string) (o operand) {
	o.text = arg
	switch {
	case op == "bra":
	case arg[0] == '{':
		for _, r := range strings.Split(strings.Trim(arg, "{}"), ",") {
			o.list = append(o.list, m.register(strings.TrimSpace(r)))
		}
	case arg[0] == '[':
		base, offset, _ := strings.Cut(strings.Trim(arg, "[]"), "+")
		if offset != "" {
			o.number = number(offset)
		}
		if base != "atlas_launch" {
			o.reg = m.register(base)
		}
	case arg[0] == '%':
		o.reg = m.register(arg)
		o.list = []int{o.reg}
	case arg != "atlas_shared":
		o.number = number(arg)
	}
	return o
}

// run runs all blocks.
func (m *machine) run(threads, shared int) error {
	for z := range m.grid[2] {
		for y := range m.grid[1] {
			for x := range m.grid[0] {
				if err := m.block([3]uint32{x, y, z}, threads, shared); err != nil {
					return fmt.Errorf("block %d, %d, %d: %w", x, y, z, err)
				}
			}
		}
	}
	return nil
}

func (m *machine) block(at [3]uint32, threads, shared int) (err error) {
	m.shared = make([]byte, shared)
	for i := range m.shared {
		m.shared[i] = 0xff // NaNs
	}
	reads, writes := make([]owner, shared), make([]owner, shared)
	for i := range reads {
		reads[i].epoch, writes[i].epoch = -1, -1
	}
	all := make([]*thread, threads)
	for i := range all {
		t := &thread{regs: make([]uint64, 1000), known: make([]bool, 1000)}
		for name, v := range map[string]uint64{"%ctaid.x": uint64(at[0]), "%ctaid.y": uint64(at[1]), "%ctaid.z": uint64(at[2]), "%tid.x": uint64(i)} {
			t.set(m.register(name), v)
		}
		all[i] = t
	}
	epoch := 0
	touch := func(t, from, n int, write bool) {
		for b := from; b < from+n; b++ {
			if w := writes[b]; w.epoch == epoch && w.thread != t {
				panic(fmt.Sprintf("thread %d meets byte %d of shared memory, which thread %d has written, and there was no barrier", t, b, w.thread))
			}
			if r := reads[b]; write && r.epoch == epoch && (r.several || r.thread != t) {
				panic(fmt.Sprintf("thread %d writes byte %d of shared memory, which thread %d reads, and there was no barrier", t, b, r.thread))
			}
			if write {
				writes[b] = owner{t, epoch, false}
			} else if reads[b].epoch == epoch && reads[b].thread != t {
				reads[b].several = true
			} else if reads[b].epoch != epoch {
				reads[b] = owner{t, epoch, false}
			}
		}
	}
	pc := 0
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %v", m.code[min(pc, len(m.code)-1)].text, p)
		}
	}()
	for steps := 0; ; steps++ {
		if steps > 10_000_000 {
			panic("no end")
		}
		in := &m.code[pc]
		next, jumps := pc+1, 0
		if m.warps(all, in, touch) {
			pc = next
			continue
		}
		for i, t := range all {
			if in.guard > 0 && t.get(in.guard) == 0 {
				continue
			}
			switch in.op {
			case "bra":
				jumps++
			case "ret", "bar.sync":
				jumps++
			case "cp.async.commit_group":
				t.pending, t.open = append(t.pending, t.open), nil
			case "cp.async.wait_group", "cp.async.wait_all":
				left := 0
				if in.op == "cp.async.wait_group" {
					left = int(in.args[0].number)
				}
				for len(t.pending) > left {
					for _, copy := range t.pending[0] {
						copy()
					}
					t.pending = t.pending[1:]
				}
			default:
				m.do(i, t, in, touch)
			}
		}
		if jumps != 0 && jumps != threads {
			panic("some threads of the block alone")
		}
		if jumps == threads {
			switch in.op {
			case "bra":
				to, ok := m.labels[in.args[0].text]
				if !ok {
					panic("no such label")
				}
				next = to
			case "ret":
				return nil
			case "bar.sync":
				epoch++
			}
		}
		pc = next
	}
}

func number(s string) uint64 {
	if v, ok := strings.CutPrefix(s, "0f"); ok {
		n, _ := strconv.ParseUint(v, 16, 32)
		return n
	}
	if v, ok := strings.CutPrefix(s, "0d"); ok {
		n, _ := strconv.ParseUint(v, 16, 64)
		return n
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic("no number: " + s)
	}
	return uint64(n)
}

func (t *thread) set(r int, v uint64) { t.regs[r], t.known[r] = v, true }

func (t *thread) get(r int) uint64 {
	if !t.known[r] {
		panic("a register has no value")
	}
	return t.regs[r]
}

// value is an operand's: a number, an address, or a register's.
func (t *thread) value(o *operand) uint64 {
	if o.reg > 0 {
		return t.get(o.reg) + o.number
	}
	return o.number
}

// memory is n bytes of global memory, at a multiple of n.
func (m *machine) memory(at uint64, n int) []byte {
	if at%uint64(n) != 0 {
		panic(fmt.Sprintf("address %#x is no multiple of %d", at, n))
	}
	return m.bytes(at, n)
}

// bytes is n bytes of global memory.
func (m *machine) bytes(at uint64, n int) []byte {
	for first, b := range m.global {
		if at >= first && at+uint64(n) <= first+uint64(len(b)) {
			return b[at-first:][:n]
		}
	}
	panic(fmt.Sprintf("stray access to %d bytes at %#x", n, at))
}

func fma(t string, a, b, c uint64) uint64 {
	if t == "f64" {
		return math.Float64bits(math.FMA(math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c)))
	}
	x, y, z := math.Float32frombits(uint32(a)), math.Float32frombits(uint32(b)), math.Float32frombits(uint32(c))
	p := float64(x) * float64(y) // exact
	s := p + float64(z)
	if math.IsNaN(s) || math.IsInf(s, 0) || s == 0 {
		return uint64(math.Float32bits(float32(s)))
	}
	// Rounded to odd, s may be rounded again.
	back := s - p
	if rest := (p - (s - back)) + (float64(z) - back); rest != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Inf(int(math.Copysign(1, rest))))
	}
	return uint64(math.Float32bits(float32(s)))
}

// do does one thread's instruction.
func (m *machine) do(i int, t *thread, in *instruction, touch func(t, from, n int, write bool)) {
	parts, typ, size := in.parts, in.typ, in.size
	cut := func(v uint64) uint64 {
		switch size {
		case 2:
			return uint64(uint16(v))
		case 4:
			return uint64(uint32(v))
		}
		return v
	}
	get := func(k int) uint64 { return cut(t.value(&in.args[k])) }
	set := func(v uint64) { t.set(in.args[0].reg, cut(v)) }
	truth := func(v bool) {
		t.set(in.args[0].reg, 0)
		if v {
			t.set(in.args[0].reg, 1)
		}
	}
	f32 := func(v uint64) float32 { return math.Float32frombits(uint32(v)) }
	f64 := math.Float64frombits
	switch {
	case m.halves(t, in):
	case parts[0] == "mov":
		set(get(1))
	case parts[0] == "fma":
		set(fma(typ, get(1), get(2), get(3)))
	case parts[0] == "ld" && parts[1] == "param":
		at := in.args[1].number
		if size == 4 {
			set(uint64(binary.LittleEndian.Uint32(m.launch[at:])))
		} else {
			set(binary.LittleEndian.Uint64(m.launch[at:]))
		}
	case in.op == "mul.wide.u32":
		t.set(in.args[0].reg, get(1)*get(2))
	case in.op == "cvt.u64.u32":
		t.set(in.args[0].reg, uint64(uint32(t.value(&in.args[1]))))
	case parts[0] == "add" && parts[1] == "rn" && typ == "f32":
		set(uint64(math.Float32bits(f32(get(1)) + f32(get(2)))))
	case parts[0] == "add" && parts[1] == "rn":
		set(math.Float64bits(f64(get(1)) + f64(get(2))))
	case parts[0] == "mul" && parts[1] == "rn" && typ == "f32":
		set(uint64(math.Float32bits(f32(get(1)) * f32(get(2)))))
	case parts[0] == "mul" && parts[1] == "rn":
		set(math.Float64bits(f64(get(1)) * f64(get(2))))
	case parts[0] == "add":
		set(get(1) + get(2))
	case parts[0] == "sub":
		set(get(1) - get(2))
	case parts[0] == "mul":
		set(get(1) * get(2))
	case parts[0] == "mad":
		set(get(1)*get(2) + get(3))
	case parts[0] == "div":
		set(get(1) / get(2))
	case parts[0] == "rem":
		set(get(1) % get(2))
	case in.op == "min.s32":
		set(uint64(min(int32(get(1)), int32(get(2)))))
	case in.op == "max.s32":
		set(uint64(max(int32(get(1)), int32(get(2)))))
	case parts[0] == "min":
		set(min(get(1), get(2)))
	case in.op == "and.pred":
		truth(get(1)&get(2) != 0)
	case parts[0] == "and":
		set(get(1) & get(2))
	case parts[0] == "xor":
		set(get(1) ^ get(2))
	case parts[0] == "shr":
		set(get(1) >> get(2))
	case parts[0] == "shl":
		set(get(1) << get(2))
	case parts[0] == "selp":
		v := get(2)
		if t.value(&in.args[3]) != 0 {
			v = get(1)
		}
		set(v)
	case parts[0] == "setp":
		a, b := get(1), get(2)
		less, equal := a < b, a == b
		switch typ {
		case "s32":
			less = int32(a) < int32(b)
		case "f32":
			less, equal = f32(a) < f32(b), f32(a) == f32(b)
		case "f64":
			less, equal = f64(a) < f64(b), f64(a) == f64(b)
		}
		var holds bool
		switch parts[1] {
		case "lt":
			holds = less
		case "le":
			holds = less || equal
		case "eq":
			holds = equal
		case "ne":
			holds = !equal
		case "ge":
			holds = !less
		case "gt":
			holds = !less && !equal
		default:
			panic("unknown")
		}
		if parts[2] == "and" {
			holds = holds && t.value(&in.args[3]) != 0
		}
		truth(holds)
	case parts[0] == "ld" && (parts[1] == "shared" || parts[1] == "global" || parts[2] == "global"):
		at, to := t.value(&in.args[1]), in.args[0].list
		var b []byte
		if parts[1] == "shared" {
			touch(i, int(at), size*len(to), false)
			b = m.shared[at:][:size*len(to)]
			if at%uint64(len(b)) != 0 {
				panic("misaligned")
			}
		} else {
			b = m.memory(at, size*len(to))
		}
		for k, r := range to {
			t.set(r, cellOf(b[size*k:][:size]))
		}
	case parts[0] == "st":
		at, from := t.value(&in.args[0]), in.args[1].list
		var b []byte
		if parts[1] == "shared" {
			touch(i, int(at), size*len(from), true)
			b = m.shared[at:][:size*len(from)]
		} else {
			b = m.memory(at, size*len(from))
		}
		for k, r := range from {
			var c [8]byte
			binary.LittleEndian.PutUint64(c[:], t.get(r))
			copy(b[size*k:][:size], c[:])
		}
	case parts[0] == "cp":
		n := int(in.args[2].number)
		real := n // of what is copied; the rest is 0
		if len(in.args) > 3 {
			real = int(uint32(t.value(&in.args[3])))
		}
		to, at := t.value(&in.args[0]), t.value(&in.args[1])
		if to%uint64(n) != 0 || real > 0 && at%uint64(n) != 0 {
			panic("misaligned")
		}
		from := make([]byte, n)
		if real > 0 {
			copy(from, m.bytes(at, real))
		}
		touch(i, int(to), n, true)
		t.open = append(t.open, func() {
			touch(i, int(to), n, true)
			copy(m.shared[to:], from)
		})
	default:
		panic("unknown")
	}
}
