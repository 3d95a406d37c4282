package strips

import (
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// frame is the state of one worker running strips of one kernel: the strip
// registers, the masks and all that belongs to a block or a lane. Frames are
// kept for the next launch.
type frame struct {
	k     *Kernel
	r     *run
	l     *backends.Launch
	slots []slot // of the launch

	regs  []reg
	exits []exit
	store []byte // holds the registers' places, the masks and the scratch
	width int    // lanes that there is room for
	wide  [3]unsafe.Pointer
	temp  [2]unsafe.Pointer // width values of 8 bytes each, for collectives

	n     int    // lanes of the strip
	g0    uint64 // global number of its first lane
	m     mask   // lanes that run
	where place

	shared  unsafe.Pointer // the block's shared memory
	pool    unsafe.Pointer // the lanes' scratch: PoolBytes a lane
	pooled  []bool         // lane·areas + area: allocated
	phase   reg
	residue [isa.NumClasses]uint64
	fuel    fuel
	stopped bool
}

// exit is what a Block or Loop knows about lanes that have left it or started
// its next round by a Br.
type exit struct {
	m   mask
	in  mask           // lanes that entered
	buf unsafe.Pointer // room for m
}

// newFrame makes a frame for strips of up to width lanes, a multiple of 64.
func newFrame(k *Kernel, width int) *frame {
	f := &frame{k: k, width: width, regs: make([]reg, len(k.regs)), exits: make([]exit, k.exits)}
	size := k.laneBytes * width
	wide := size
	if k.halves {
		size += 3 * 4 * width
	}
	temp := size
	if k.collectives {
		size += 2 * 8 * width
	}
	shared := size
	size += (int(k.shared) + 63) &^ 63
	pool := size
	size += k.poolBytes * width
	phase := size
	if k.phase {
		size += 2 * width
	}
	f.store = make([]byte, size+64)
	base := unsafe.Pointer(&f.store[0])
	base = unsafe.Add(base, int(-uintptr(base)&63))
	for i := range k.regs {
		ri := &k.regs[i]
		r := &f.regs[i]
		r.own = unsafe.Add(base, int(ri.place)*width)
		r.size, r.lasting = ri.size, ri.lasting
		r.p = r.own
	}
	for _, c := range k.constants {
		f.regs[c.reg].setUni(c.bits)
	}
	// No pointer may lead past the store, not even one that nobody uses.
	for i := 0; k.halves && i < len(f.wide); i++ {
		f.wide[i] = unsafe.Add(base, wide+i*4*width)
	}
	for i := 0; k.collectives && i < len(f.temp); i++ {
		f.temp[i] = unsafe.Add(base, temp+i*8*width)
	}
	f.shared = unsafe.Add(base, shared)
	f.pool = unsafe.Add(base, pool)
	if n := len(k.areas); n > 0 {
		f.pooled = make([]bool, n*width)
	}
	f.phase = reg{own: unsafe.Add(base, phase), size: 2}
	return f
}

// enter prepares the frame for a launch.
func (f *frame) enter(r *run) {
	f.r, f.l, f.slots, f.stopped = r, r.l, r.slots, false
	for _, p := range f.k.params {
		f.regs[p.reg].setUni(r.l.Params[p.param])
	}
	for _, p := range f.k.specials {
		f.regs[p.reg].setUni(r.special(p.special))
	}
	f.fuel.limit = r.l.Fuel
}

// leave forgets the launch: no pointer to its memory stays behind, which the
// collector might meet when the memory is long gone.
func (f *frame) leave() {
	for _, i := range f.k.foreign {
		f.regs[i].setVec()
	}
	if f.k.residue {
		for c, v := range f.residue {
			if v != 0 && f.l.Record != nil {
				atomic.AddUint64(&f.l.Record.Residue[c], v)
			}
		}
		clear(f.residue[:])
	}
	f.r, f.l, f.slots = nil, nil, nil
}

// strip runs n lanes from global lane g on. A strip of a program with shared
// memory, barriers or collectives is a whole block.
func (f *frame) strip(g uint64, n int) {
	f.g0, f.n, f.m = g, n, mask{count: n}
	f.locate()
	f.fuel.start(n)
	if f.k.phase {
		f.phase.setUni(uint64(f.r.phase))
	}
	if len(f.pooled) > 0 {
		clear(f.pooled[:n*len(f.k.areas)])
	}
	f.region(f.k.body)
	if f.k.phase && g == 0 && !f.stopped {
		p := f.phase.lanes(f)
		f.r.phaseOut = *(*uint16)(p)
	}
}

// region runs a region's steps for the lanes of f.m, and leaves in f.m those
// that reach its end.
func (f *frame) region(r *region) {
	for _, piece := range r.steps.pieces {
		for i := range piece {
			s := &piece[i]
			s.run(f, s)
			if f.m.count == 0 {
				return
			}
		}
	}
}

// poll reports whether the launch is cancelled. It is asked where there is
// work left, which the asker then leaves out.
func (f *frame) poll() bool {
	if !f.stopped && f.l.Record.Stopped() {
		f.stopped = true
		f.r.stopped.Store(true)
	}
	return f.stopped
}

// fault records what went wrong in a lane of the strip.
func (f *frame) fault(s *step, k isa.FaultKind, lane int) {
	f.r.fault(k, int(s.site), f.g0+uint64(lane), backends.Asked{})
}

// stray records a stray access of a lane: to which byte of which slot (-1:
// shared memory, or a table, of which it is the element).
func (f *frame) stray(s *step, lane int, slot int32, at int64) {
	f.r.fault(isa.FaultAccess, int(s.site), f.g0+uint64(lane), backends.Asked{Known: 1, Slot: uint32(max(slot, 0)), At: at})
}

// first returns the lowest active lane, of which there is one.
func (f *frame) first() int {
	i := 0
	for !f.m.has(i) {
		i++
	}
	return i
}

// faultFirst records a fault of every active lane, of which one must do.
func (f *frame) faultFirst(s *step, k isa.FaultKind) {
	f.fault(s, k, f.first())
}

// fuel is what the strip's lanes have used. Loop rounds that all lanes run
// together are counted once for all.
type fuel struct {
	limit  uint64
	all    uint64   // rounds that every lane was charged
	most   uint64   // at least what any lane was charged beyond that
	single []uint64 // what each was
}

func (u *fuel) start(n int) {
	if u.limit == 0 {
		return
	}
	u.all, u.most = 0, 0
	if len(u.single) < n {
		u.single = make([]uint64, n)
	}
	clear(u.single[:n])
}

// charge takes a unit of fuel from each lane of act, and removes those that
// have none left, by way of the mask register d.
func (f *frame) charge(s *step, act mask, d unsafe.Pointer) mask {
	u := &f.fuel
	if u.limit == 0 || s.free {
		return act
	}
	if act.count == f.n {
		if u.all++; u.all+u.most <= u.limit {
			return act
		}
	} else {
		for i, v := range lanes[uint8](act.p, f.n) {
			u.single[i] += uint64(v)
		}
		if u.most++; u.all+u.most <= u.limit {
			return act
		}
	}
	left := 0
	keep := lanes[uint8](d, (f.n+7)&^7)
	for i := range keep {
		var k uint8
		if i < f.n && act.has(i) {
			if u.all+u.single[i] <= u.limit {
				k = 1
				left++
			} else {
				f.fault(s, isa.FaultFuel, i)
			}
		}
		keep[i] = k
	}
	if left == act.count {
		return act // d lasts no longer than the loop
	}
	return mask{d, left}
}
