package ptx

import (
	"encoding/binary"
	"unsafe"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// The launch block is the kernel's one parameter: little-endian, aligned to 8.
//
//	  0  u64     address of the launch's backends.Record, which the host can read
//	  8  u64     address of a u32 in device memory: a lock, 0 when free
//	 16  u64     address of 96 residues in device memory, u64
//	 24  u64     address of a u32: the phase that lanes start with
//	 32  u64     address of a u32: where lane 0's last phase goes
//	 40  u64     n, the size of the index space
//	 48  u64     how many lanes run: n, but at most the grid's
//	 56  u64     fuel of a lane
//	 64  u32[3]  grid, as the program sees it
//	 76  u32[3]  block, likewise
//	 88  u32[3]  index of this grid's first block: a grid beyond the driver's
//	             limits is launched in parts
//	100  u32     the first block, of the driver's, that takes back what makes
//	             reads last
//	104  u64[7]  sizes of the fused index space, innermost first, but for the
//	             outermost
//	160  u64     params, one cell each
//	 …   u64     base address of each slot
//	 …   u64     bytes that byte addresses may reach from there, for each slot
//	 …   i64[8]  strides in bytes, innermost first, for each slot that is
//	             accessed by slot[index]
const (
	atRecord   = AtRecord
	atLock     = 8
	atResidue  = 16
	atPhaseIn  = 24
	atPhaseOut = 32
	atN        = 40
	atLanes    = 48
	atFuel     = 56
	atGrid     = 64
	atBlock    = 76
	atOrigin   = 88
	atTail     = 100
	atShape    = 104
	atParams   = atShape + 8*(isa.MaxRank-1)
)

// AtRecord is where the launch block has the address of the launch's record.
const AtRecord = 0

// Where the flags of a backends.Record lie.
const (
	RecordCancel = unsafe.Offsetof(backends.Record{}.Cancel)
	RecordEnded  = unsafe.Offsetof(backends.Record{}.Ended)
)

// Where the other fields of a backends.Record lie.
const (
	recFault   = unsafe.Offsetof(backends.Record{}.Fault)
	recSite    = unsafe.Offsetof(backends.Record{}.Site)
	recLane    = unsafe.Offsetof(backends.Record{}.Lane)
	recResidue = unsafe.Offsetof(backends.Record{}.Residue)
)

// Layout says where a program's parameters and slots stand in its launch block.
type Layout struct {
	Bytes   int
	params  int
	slots   int
	strides []int // offset of the strides of each slot; 0: none
}

func layoutOf(f *ir.Func) Layout {
	l := Layout{params: len(f.ParamTypes), slots: len(f.SlotTypes), strides: make([]int, len(f.SlotTypes))}
	l.Bytes = atParams + 8*l.params + 16*l.slots
	for i, s := range f.Slots {
		if s.Indexed {
			l.strides[i] = l.Bytes
			l.Bytes += 8 * isa.MaxRank
		}
	}
	return l
}

// Param is where a parameter's cell stands in the launch block.
func (l *Layout) Param(i int) int { return atParams + 8*i }

// Base is where a slot's address stands in the launch block.
func (l *Layout) Base(i int) int { return atParams + 8*l.params + 8*i }

func (l *Layout) bytes(i int) int { return l.Base(i) + 8*l.slots }

// Wide reports whether the launch block needs the larger parameter space that
// drivers have from CUDA 12.1 on.
func (l *Layout) Wide() bool { return l.Bytes > narrowBlock }

// Environment is what a launch needs beside the contract's Launch: the addresses
// that the launch block begins with.
type Environment struct {
	Record, Lock, Residue, PhaseIn, PhaseOut uint64
	Tail                                     uint32 // with Options.Lasts
}

// A lane's fault is kept as its site and kind in one number, 0 for none.
const kindBits = 3

func faultCode(site int, k isa.FaultKind) int { return (site+1)<<kindBits | int(k) }

// Space is a launch's index space as a kernel sees it: neighbouring dimensions
// that every indexed slot walks through evenly are one, dimensions of one
// element are gone. Innermost first.
type Space struct {
	Rank    int
	shape   [isa.MaxRank]int64
	strides [][isa.MaxRank]int64 // by slot, in bytes
}

// Fuse sets s to the index space of a launch. It allocates nothing once s has
// been used.
func (l *Layout) Fuse(launch *backends.Launch, s *Space) {
	if cap(s.strides) < l.slots {
		s.strides = make([][isa.MaxRank]int64, l.slots)
	}
	s.Rank, s.shape, s.strides = 0, [isa.MaxRank]int64{}, s.strides[:l.slots]
	clear(s.strides)
	for d := launch.Rank - 1; d >= 0; d-- {
		n := launch.Shape[d]
		if n == 1 {
			continue
		}
		k := s.Rank - 1
		joins := k >= 0
		for i := range l.strides {
			if l.strides[i] > 0 && joins {
				joins = s.strides[i][k]*s.shape[k] == l.stride(launch, i, d)
			}
		}
		if joins {
			s.shape[k] *= n
			continue
		}
		for i := range l.strides {
			if l.strides[i] > 0 {
				s.strides[i][s.Rank] = l.stride(launch, i, d)
			}
		}
		s.shape[s.Rank] = n
		s.Rank++
	}
}

func (l *Layout) stride(launch *backends.Launch, slot, d int) int64 {
	v := &launch.Slots[slot]
	return v.Stride[d] * int64(v.Type.Size())
}

// Dense is Options.Dense of a launch with this index space.
func (l *Layout) Dense(launch *backends.Launch, s *Space) bool {
	for i, at := range l.strides {
		if at > 0 && s.Rank > 0 && (s.Rank > 1 || s.strides[i][0] != int64(launch.Slots[i].Type.Size())) {
			return false
		}
	}
	return true
}

// Lanes returns how many lanes of a launch run.
func Lanes(l *backends.Launch) uint64 {
	return min(l.N, uint64(l.Grid[0])*uint64(l.Grid[1])*uint64(l.Grid[2])*uint64(l.Block[0])*uint64(l.Block[1])*uint64(l.Block[2]))
}

// Pack writes the launch block into b, which has Bytes bytes.
func (l *Layout) Pack(b []byte, launch *backends.Launch, space *Space, env *Environment) {
	u64 := func(at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }
	u32 := func(at int, v uint32) { binary.LittleEndian.PutUint32(b[at:], v) }
	u64(atRecord, env.Record)
	u64(atLock, env.Lock)
	u64(atResidue, env.Residue)
	u64(atPhaseIn, env.PhaseIn)
	u64(atPhaseOut, env.PhaseOut)
	u64(atN, launch.N)
	u64(atLanes, Lanes(launch))
	u64(atFuel, launch.Fuel)
	u32(atTail, env.Tail)
	for i := range 3 {
		u32(atGrid+4*i, launch.Grid[i])
		u32(atBlock+4*i, launch.Block[i])
		u32(atOrigin+4*i, 0)
	}
	for k := range isa.MaxRank - 1 {
		u64(atShape+8*k, uint64(space.shape[k]))
	}
	for i, v := range launch.Params {
		u64(l.Param(i), v)
	}
	for i := range launch.Slots {
		u64(l.Base(i), uint64(launch.Slots[i].Addr))
		u64(l.bytes(i), uint64(launch.Slots[i].Bytes))
		if at := l.strides[i]; at > 0 {
			for k := range isa.MaxRank {
				u64(at+8*k, uint64(space.strides[i][k]))
			}
		}
	}
}

// SetOrigin changes the first block of a packed launch block.
func SetOrigin(b []byte, origin [3]uint32) {
	for i, v := range origin {
		binary.LittleEndian.PutUint32(b[atOrigin+4*i:], v)
	}
}
