package backends

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
	"github.com/hologram-project/hologram/kernels"
)

// Unit is what Compile gets. It is immutable and may be shared.
type Unit struct {
	Source *isa.Verified
	IR     *ir.Func // canonical
	Hash   [32]byte // of the canonical bytes; of the source's where Info.RunsSource
	// Meeting is that of the plan's step that the program is of.
	Meeting kernels.Meeting
	// Work, which may be nil, counts Compile's steps, and may stop it.
	Work *work.Meter
}

// Variant is what a kernel may take for granted of the launches that it is made
// for. The zero value takes nothing.
type Variant struct {
	// Packed: the views of all slots that are accessed by index are contiguous
	// over the index space, or stand for one element each.
	Packed bool
	// Proved: every access by bytes lies within its slot, whatever the lane.
	Proved bool
	// NoFuel: the launches have no budget of fuel.
	NoFuel bool
}

// And is what both v and w take for granted.
func (v Variant) And(w Variant) Variant {
	return Variant{v.Packed && w.Packed, v.Proved && w.Proved, v.NoFuel && w.NoFuel}
}

// Key names a kernel in every cache, in memory and on disk: it holds all that
// changes the code.
type Key [32]byte

// KeyOf returns the key of a unit's variant on a device.
func KeyOf(u *Unit, v Variant, info *Info) Key {
	h := sha256.New()
	h.Write(u.Hash[:])
	// What is a product's program to kernels may run by units that round otherwise, unlike a user's of the same text.
	fmt.Fprintf(h, "%s\x00%t %v %v %+v", info.Codegen, info.RunsSource, v.And(info.Variants), u.Meeting, kernels.ProductOf(u.Source))
	h.Write(binary.LittleEndian.AppendUint32(nil, uint32(kernels.ReductionOrder)))
	return Key(h.Sum(nil))
}

// View is memory as seen through shape and strides. Rank 0 is a scalar.
type View struct {
	Addr   uintptr // of element 0 …
	Bytes  int64   // what byte addresses may reach from there; 0 where the view is not contiguous
	Type   isa.Type
	Rank   int
	Shape  [isa.MaxRank]int64
	Stride [isa.MaxRank]int64 // in elements; 0 broadcasts; never reaches outside the memory
}

// Launch is one run of a kernel. Slots are already broadcast to the index
// space: same Rank and Shape, strides 0 where an operand is repeated. From core,
// dimensions that all slots walk through as if they were one are one, and none has
// one element, but for the only one.
type Launch struct {
	Slots       []View
	Params      []uint64 // cells, those of ir.Func.Given behind the program's own: see Give
	Flats       []Flat   // by slot, of those that are accessed as slot[flat i]; nil if none is
	Sizes       []int64  // of the index space as the caller gave them; nil: Shape's
	Grid, Block [3]uint32
	Rank        int // of the index space, row-major over the lanes
	Shape       [isa.MaxRank]int64
	N           uint64 // product of Shape; lanes from N on do not run
	Batch       int    // of one for a Batcher, with how many it comes, itself among them; else 0
	Fuel        uint64 // steps a lane may take; 0: no limit
	Workspace   uintptr
	Record      *Record // in memory of AllocHost; nil: nobody asks
	Phase       *uint32 // likewise: the stream's phase; all lanes see what stood there before, and lane 0's last is there at the end; nil if the program has none
}

// Record is what the host and a launch tell each other. It lies in memory of
// AllocHost, which both see; a backend's own code for the device relies on this
// layout.
type Record struct {
	Cancel  uint32                 // the host sets it to 1: the launch ends soon
	Ended   uint32                 // the launch sets it to 1 if it was cancelled before its end
	Fault   uint32                 // isa.FaultKind of the first fault that was noted; 0: none
	Site    int32                  // ir.Node number (see ir.Func.Sites) or, if Info.RunsSource, index in Program.Insts
	Lane    uint64                 // one of the lanes, by its global number
	Residue [isa.NumClasses]uint64 // RES_ACCUM adds to it
	Asked   Asked                  // by a stray access; devices need not tell
}

// Asked is what a stray access asked for.
type Asked struct {
	Known uint32 // 1: the rest is there
	Slot  uint32 // of an access through a register: the slot's number
	At    int64  // the byte of the slot or of shared memory, or the element of the table
}

// Stop asks the launch to end soon.
func (r *Record) Stop() { atomic.StoreUint32(&r.Cancel, 1) }

// Stopped reports whether the launch is to end soon. A nil Record never says so.
func (r *Record) Stopped() bool { return r != nil && atomic.LoadUint32(&r.Cancel) != 0 }

// Outcome is what the launch noted: nil, *ProgramFault or ErrCancelled. It is
// complete when the launch's ticket has passed.
func (r *Record) Outcome() error {
	switch {
	case r.Ended != 0:
		return ErrCancelled
	case r.Fault != 0:
		return &ProgramFault{Kind: isa.FaultKind(r.Fault), Site: int(r.Site), Lane: r.Lane, Asked: r.Asked}
	}
	return nil
}

// Note writes an outcome into the record, for devices that learn it on the host.
func (r *Record) Note(err error) {
	if r == nil {
		return
	}
	switch e := err.(type) {
	case nil:
	case *ProgramFault:
		r.Fault, r.Site, r.Lane, r.Asked = uint32(e.Kind), int32(e.Site), e.Lane, e.Asked
	default:
		if err == ErrCancelled {
			r.Ended = 1
		}
	}
}

// ProgramFault is what went wrong in lanes of a launch that ran to its end.
// Core turns Site into the instruction of the program as written.
type ProgramFault struct {
	Kind  isa.FaultKind
	Site  int    // as in Record
	Lane  uint64 // as in Record; the lowest, on the CPU
	Asked Asked  // as in Record
}

func (f *ProgramFault) Error() string {
	return fmt.Sprintf("%v at site %d in lane %d", f.Kind, f.Site, f.Lane)
}
