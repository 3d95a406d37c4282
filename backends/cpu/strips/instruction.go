package strips

import (
	"encoding/binary"
	"math"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// inst compiles an instruction to s, or to no step.
func (c *compiler) inst(n *ir.Node, s *step) (some bool, err error) {
	op := n.Op.Inst()
	if sameBits(op, n.Form) {
		// The result is another name of the operand's register, which lasts
		// as long as either is read.
		c.regs[n.Result().ID] = c.use(n.Args[0]) + 1
		return false, nil
	}
	if some, err := c.instStep(op, n, s); !some || err != nil {
		return false, err
	}
	s.site = int32(n.Site)
	// operands, but for those of addresses, are in place
	v := n.Result()
	if v == nil || op >= isa.ATOM_ADD && op <= isa.ATOM_CAS && c.uses[v.ID] == 0 {
		s.d = -1
	} else if s.elementwise() {
		s.d = c.define(v, 2*c.pos+1)
	} else {
		s.d = c.define(v, 2*c.pos)
		c.infos[s.d].foreign = op == isa.LDG || op == isa.LDS
	}
	return true, nil
}

// operands reads the node's arguments from number i on into a, b, c.
func (c *compiler) operands(s *step, n *ir.Node, i int) {
	s.a, s.b, s.c = -1, -1, -1
	for j, r := range []*int32{&s.a, &s.b, &s.c} {
		if i+j < len(n.Args) {
			*r = c.use(n.Args[i+j])
		}
	}
}

// address reads the operands of n's address, and puts its value, if it has
// one, into b, and a second one into c.
func (c *compiler) address(s *step, n *ir.Node) {
	m := &n.Mem
	s.slot, s.imm, s.mode, s.a = int8(m.Slot), uint64(m.Offset), m.Mode, -1
	if m.Mode == isa.AddrShared {
		s.slot = -1
	}
	i := 0
	if m.Mode == isa.AddrIndirect {
		s.h = c.use(n.Args[0])
		i++
	}
	if m.HasOff {
		s.a = c.use(n.Args[i])
		i++
	}
	if i < len(n.Args) {
		s.b = c.use(n.Args[i])
	}
	if i+1 < len(n.Args) {
		s.c = c.use(n.Args[i+1])
	}
}

// instStep fills in all of an instruction's step but for its result, or reports
// that it needs none.
func (c *compiler) instStep(op isa.Op, n *ir.Node, s *step) (some bool, err error) {
	k := c.k
	s.typ = n.Type
	switch op {
	case isa.LDP:
		if r, isNew := c.lastingReg(n); r >= 0 {
			c.regs[n.Result().ID] = r + 1
			if isNew {
				k.params = append(k.params, paramReg{r, int32(n.Imm)})
			}
			return false, nil
		}
		s.run, s.imm = setParam, n.Imm
		return true, nil
	case isa.SREG:
		return c.special(s, n), nil
	case isa.LDG, isa.LDS:
		s.run = load
		c.address(s, n)
		if s.mode == isa.AddrIndex {
			s.run = loadIndex
		}
		if op == isa.LDS {
			k.blocks = true
		}
		return true, nil
	case isa.STG, isa.STS:
		s.run = store
		c.address(s, n)
		if s.mode == isa.AddrIndex {
			s.run = storeIndex
		}
		if op == isa.STS {
			k.blocks = true
		}
		return true, nil
	case isa.ATOM_ADD, isa.ATOM_MIN, isa.ATOM_MAX, isa.ATOM_AND, isa.ATOM_OR, isa.ATOM_XOR, isa.ATOM_EXCH, isa.ATOM_CAS:
		s.run, s.op = runAtomic, op
		c.address(s, n)
		k.blocks = k.blocks || s.slot < 0
		return true, nil
	case isa.LDC:
		s.run, s.from = loadTable, n.Args[0].Type
		c.operands(s, n, 0)
		s.rest = c.table(n.Imm)
		return true, nil
	case isa.BAR_SYNC:
		s.run, k.blocks = barrier, true
		return true, nil
	case isa.MEM_FENCE:
		s.run = fence
		return true, nil
	case isa.CLS_GET:
		s.run, s.rest, k.places = blockClass, &rest{table: identityTable()}, true
		return true, nil
	case isa.UNITY_TEST:
		s.run, s.rest, k.places = blockClass, &rest{table: unityTable(math.Float64frombits(n.Imm))}, true
		return true, nil
	case isa.RES_ACCUM:
		s.run, k.residue = accumulate, true
		c.operands(s, n, 0)
		return true, nil
	case isa.PHASE_GET, isa.PHASE_ADV:
		s.run, s.imm, k.phase = phaseGet, n.Imm, true
		if op == isa.PHASE_ADV {
			s.run = phaseAdv
		}
		return true, nil
	case isa.POOL_ALLOC:
		s.run, s.imm = poolAlloc, uint64(c.pools[uint32(n.Imm>>32)])
		return true, nil
	case isa.POOL_FREE:
		s.run = poolFree
		c.operands(s, n, 0)
		return true, nil
	case isa.POOL_LOAD:
		s.run = poolLoad
		c.operands(s, n, 0)
		return true, nil
	case isa.POOL_STORE:
		s.run = poolStore
		c.operands(s, n, 0)
		return true, nil
	}
	if prim, ok := collectives[op]; ok {
		return c.collective(op, prim, n, s)
	}
	key := primitiveKey{op, n.Form}
	known, ok := c.primitives[key]
	if !ok {
		known = primitive(op, n.Form)
		c.primitives[key] = known
	}
	if known == nil {
		return false, unsupported(n, "there is no rule for it")
	}
	if known.run == nil {
		return false, unsupported(n, "its rule is empty")
	}
	*s = *known
	if op == isa.MIRROR || op == isa.NBR_COUNT || op == isa.NBR_GET {
		s.rest = &rest{table: classTable(op, n.Imm)}
	}
	k.halves = k.halves || s.widen != nil
	c.operands(s, n, 0)
	return true, nil
}

func (c *compiler) collective(op, prim isa.Op, n *ir.Node, s *step) (some bool, err error) {
	*s = step{loops: &loops{}, typ: n.Type, run: reduce, imm: identity(prim, n.Type)}
	if op >= isa.BLOCK_SCAN_ADD {
		s.run = scan
	}
	h := halves[n.Type]
	s.widen, s.narrow, s.l2 = h.widen, h.narrow, binaries[prim][n.Type]
	if s.l2 == nil {
		return false, unsupported(n, "there is no rule for it")
	}
	c.k.blocks, c.k.collectives = true, true
	c.operands(s, n, 0)
	return true, nil
}

// special compiles SREG. What is the same in all lanes of a launch gets a
// lasting register.
func (c *compiler) special(s *step, n *ir.Node) (some bool) {
	sp := isa.Special(n.Imm)
	s.imm = n.Imm
	switch {
	case sp == isa.GlobalLane:
	case sp < isa.BlockDimX:
		c.k.places = true
	default:
		if r, isNew := c.lastingReg(n); r >= 0 {
			c.regs[n.Result().ID] = r + 1
			if isNew {
				c.k.specials = append(c.k.specials, specialReg{r, sp})
			}
			return false
		}
		s.run = setSpecial
		return true
	}
	s.run = readSpecial
	return true
}

// table returns the constant table with the given number; LDCs share it.
func (c *compiler) table(number uint64) *rest {
	t := c.tables[number]
	if t == nil {
		d := &c.fn.Data[number]
		t = &rest{table: tableBytes(d), elements: len(d.Values)}
		c.tables[number] = t
	}
	return t
}

// tableBytes is a constant table as it stands in memory.
func tableBytes(d *isa.Data) []byte {
	b := make([]byte, 0, len(d.Values)*d.Type.Size()+8)
	for _, v := range d.Values {
		var cell [8]byte
		binary.LittleEndian.PutUint64(cell[:], v)
		b = append(b, cell[:d.Type.Size()]...)
	}
	return b
}
