package interp

import (
	"fmt"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// machine runs one launch of one program, block after block.
type machine struct {
	*code
	launch    *backends.Launch
	slots     []slot
	shared    []byte
	block     [3]uint32 // index of the block that runs
	lanes     []lane    // of that block
	nested    map[expansion]*machine
	phase     uint16                 // the stream's, with which all lanes start
	fault     *backends.ProgramFault // of the lowest lane, its first
	asked     backends.Asked         // by the instruction that runs
	cancelled bool
	watch     *watch
}

func newMachine(c *code, l *backends.Launch) *machine {
	m := &machine{code: c, launch: l, shared: make([]byte, c.Program.Shared), nested: map[expansion]*machine{}}
	for i := range l.Slots {
		m.slots = append(m.slots, viewSlot(&l.Slots[i]))
	}
	if l.Phase != nil {
		m.phase = uint16(*l.Phase)
	}
	m.lanes = make([]lane, l.Block[0]*l.Block[1]*l.Block[2])
	return m
}

type laneState uint8

const (
	running laneState = iota
	waiting           // at the barrier or collective at pc
	ended
)

// lane is what one lane has of its own.
type lane struct {
	state  laneState
	pc     int
	global uint64    // number in the grid
	index  [3]uint32 // in the block
	coord  [isa.MaxRank]int64
	regs   [isa.NumRegisters]uint64
	types  [isa.NumRegisters]isa.Type // of what regs hold
	preds  [isa.NumPredicates]bool
	calls  []int // the CALLs entered
	loops  []loop
	fuel   uint64
	phase  uint16
	pools  [][]byte // scratch areas by ordinal; nil if there is none
	step   *Step    // being recorded
}

// loop is a LOOP entered.
type loop struct {
	at    int    // its instruction
	end   int    // the position after its body
	left  uint32 // rounds to go, with the current one
	calls int    // how many CALLs had been entered
}

// run runs all blocks.
func (m *machine) run() error {
	l := m.launch
	lanes := uint64(len(m.lanes))
	first := uint64(0)
	for z := range l.Grid[2] {
		for y := range l.Grid[1] {
			for x := range l.Grid[0] {
				if first >= l.N { // only surplus lanes from here on
					return m.outcome()
				}
				if l.Record.Stopped() {
					return backends.ErrCancelled
				}
				m.block = [3]uint32{x, y, z}
				if err := m.runBlock(first); err != nil {
					return err
				}
				if m.cancelled {
					return backends.ErrCancelled
				}
				first += lanes
			}
		}
	}
	return m.outcome()
}

func (m *machine) outcome() error {
	if m.fault != nil {
		return m.fault
	}
	return nil
}

// runBlock runs each lane to its end or to the next barrier, in order, and
// again from there, until all have ended.
func (m *machine) runBlock(first uint64) error {
	clear(m.shared)
	for i := range m.lanes {
		m.start(&m.lanes[i], first, i)
	}
	for {
		site := -1
		for i := range m.lanes {
			l := &m.lanes[i]
			for l.state == running && !m.cancelled {
				m.stepLane(l)
			}
			if m.cancelled {
				return nil
			}
			if l.state != waiting {
				continue
			}
			if site >= 0 && l.pc != site {
				return fmt.Errorf("interp: lanes of a block wait at instructions %d and %d of %q", site, l.pc, m.Program.Name)
			}
			site = l.pc
		}
		if site < 0 {
			break
		}
		m.meet(site)
	}
	if m.launch.Phase != nil && first == 0 {
		*m.launch.Phase = uint32(m.lanes[0].phase)
	}
	return nil
}

// start prepares lane number i of a block. Registers keep what they held: the
// verifier has seen that none is read before it is written.
func (m *machine) start(l *lane, first uint64, i int) {
	x, y := int(m.launch.Block[0]), int(m.launch.Block[1])
	l.state, l.pc, l.global = running, 0, first+uint64(i)
	l.index = [3]uint32{uint32(i % x), uint32(i / x % y), uint32(i / x / y)}
	l.calls, l.loops = l.calls[:0], l.loops[:0]
	l.fuel, l.phase = m.launch.Fuel, m.phase
	l.pools = make([][]byte, len(m.code.pools))
	if l.global >= m.launch.N {
		l.state = ended
		return
	}
	rest := int64(l.global)
	for d := m.launch.Rank - 1; d >= 0; d-- {
		l.coord[d] = rest % m.launch.Shape[d]
		rest /= m.launch.Shape[d]
	}
	for k, s := range isa.PresetRegisters {
		l.regs[isa.FirstPreset+k], l.types[isa.FirstPreset+k] = m.special(l, s), s.Type()
	}
}

// special returns a special value.
func (m *machine) special(l *lane, s isa.Special) uint64 {
	switch {
	case s <= isa.LaneZ:
		return uint64(l.index[s-isa.LaneX])
	case s <= isa.BlockZ:
		return uint64(m.block[s-isa.BlockX])
	case s <= isa.BlockDimZ:
		return uint64(m.launch.Block[s-isa.BlockDimX])
	case s <= isa.GridDimZ:
		return uint64(m.launch.Grid[s-isa.GridDimX])
	case s == isa.GlobalLane:
		return l.global
	case s == isa.N:
		return m.launch.N
	}
	return inSpace(m.launch.Space(), l.global, s)
}

// inSpace returns a special value of the index space, in which the lane has the
// given number.
func inSpace(space []int64, number uint64, s isa.Special) uint64 {
	axis, place := len(space), false
	switch {
	case s == isa.RowIndex || s == isa.ColumnIndex:
		axis, place = axis-int(isa.ColumnIndex-s)-1, true
	case s == isa.RowCount || s == isa.ColumnCount:
		axis -= int(isa.ColumnCount-s) + 1
	case s <= isa.Index7:
		axis, place = int(s-isa.Index0), true
	default:
		axis = int(s - isa.Size0)
	}
	switch there := axis >= 0 && axis < len(space); {
	case !place && !there:
		return 1
	case !place:
		return uint64(space[axis])
	case !there:
		return 0
	}
	for d := len(space) - 1; d > axis; d-- {
		number /= uint64(space[d])
	}
	return number % uint64(space[axis])
}

// report notes a fault; a launch reports that of its lowest lane.
func (m *machine) report(kind isa.FaultKind, site int, l *lane) {
	f := backends.ProgramFault{Kind: kind, Site: site, Lane: l.global}
	if kind == isa.FaultAccess {
		f.Asked = m.asked
	}
	if m.fault == nil || f.Lane < m.fault.Lane {
		m.fault = &f
	}
	if m.watch != nil && m.watch.fault != nil {
		m.watch.fault(f)
	}
}

// charge takes a unit of fuel for a round that instruction site starts. It
// ends the lane and returns false if there is none, or the launch is cancelled.
func (m *machine) charge(l *lane, site int) bool {
	if m.launch.Record.Stopped() {
		m.cancelled = true
		l.state = ended
		return false
	}
	if m.launch.Fuel == 0 {
		return true
	}
	if l.fuel == 0 {
		m.report(isa.FaultFuel, site, l)
		l.state = ended
		return false
	}
	l.fuel--
	return true
}

// startsRound reports whether the given way out of an instruction of the
// routine that a lane is in starts a new round of a loop made by branches.
func (m *machine) startsRound(l *lane, inst int, way isa.BackEdge) bool {
	if !m.rounds[inst] { // mostly, and faster than the map
		return false
	}
	at := isa.RoutineInst{Inst: inst}
	if n := len(l.calls); n > 0 {
		at.Entry = m.label(&m.Program.Insts[l.calls[n-1]].Args[0])
	}
	return m.BackEdges[at]&way != 0
}

// goTo lets a lane go from instruction from to position to, by the given way
// out, through the ends of loops that are there.
func (m *machine) goTo(l *lane, from int, way isa.BackEdge, to int) {
	if m.startsRound(l, from, way) && !m.charge(l, from) {
		return
	}
	l.pc = to
	if len(l.loops) > 0 {
		m.leave(l)
	}
}

// leave lets a lane go on through the ends of loops where it is.
func (m *machine) leave(l *lane) {
	for len(l.loops) > 0 {
		top := &l.loops[len(l.loops)-1]
		inside := top.at < l.pc && l.pc <= top.end
		switch {
		case top.calls != len(l.calls): // a loop of the caller's: code called may lie anywhere
			return
		case inside && l.pc < top.end:
			return
		case inside && top.left > 1: // the next round
			if !m.charge(l, top.at) {
				return
			}
			top.left--
			l.pc = top.at + 1
		default: // left, by a branch or after the last round
			at := top.at
			l.loops = l.loops[:len(l.loops)-1]
			if inside && m.startsRound(l, at, isa.BackOnward) && !m.charge(l, at) {
				return
			}
		}
	}
}

// enter starts the LOOP at the given place.
func (m *machine) enter(l *lane, at, end int, count uint32) {
	if count == 0 {
		m.goTo(l, at, isa.BackOnward, end)
	} else if m.charge(l, at) {
		l.loops = append(l.loops, loop{at, end, count, len(l.calls)})
		m.goTo(l, at, 0, at+1)
	}
}

// back returns from the innermost CALL, leaving the loops entered since.
func (m *machine) back(l *lane) {
	call := l.calls[len(l.calls)-1]
	l.calls = l.calls[:len(l.calls)-1]
	for len(l.loops) > 0 && l.loops[len(l.loops)-1].calls > len(l.calls) {
		l.loops = l.loops[:len(l.loops)-1]
	}
	m.goTo(l, call, isa.BackOnward, call+1)
}
