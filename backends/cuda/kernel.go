package cuda

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/cuda/product"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/analysis"
	"github.com/hologram-project/hologram/kernels"
)

// kernel is a compiled unit: a program in those variants that launches have
// asked for so far.
type kernel struct {
	device  *device
	program *ptx.Program
	slots   []isa.SlotUse
	types   []isa.Type
	params  []isa.Type
	cost    *analysis.Cost
	block   [3]uint32        // demanded shape, zero: any
	proved  bool             // see backends.Variant
	sums    *kernels.Product // what it is of the library's products, if it is one
	meeting kernels.Meeting  // zero where the device can't

	mu       sync.Mutex // of making variants
	variants atomic.Pointer[[]*variant]
	kept     atomic.Bool // see Kept
	spaces   sync.Pool   // of *ptx.Space, for Specialize
}

// variant is a loaded module and its function.
type variant struct {
	form   form
	module driver.Module
	fn     driver.Func
	kept   bool         // the code was in the folder of compiled code
	table  *ptx.Table   // of batches
	shared atomic.Int64 // dynamic shared memory that the function was told of
}

// form tells the variants of a kernel apart: of the program itself, or a product
// that stands in for it.
type form struct {
	ptx.Options
	product product.Form
}

// wideVersion is the driver's from which on launches may have more than 4,352 bytes.
const wideVersion = 12010

// ownLanes is how many lanes a block has where the program leaves it to us.
const ownLanes = 256

// Compile makes a kernel, which has no code yet: Specialize, or a launch, has the
// driver make the variant that it needs. A launch finds by itself what of its views
// can be taken for granted, so that kernels differ by Proved alone.
func (d *device) Compile(u *backends.Unit, v backends.Variant) (backends.Kernel, error) {
	p, err := ptx.Compile(u.IR)
	if err != nil {
		return nil, err
	}
	if p.Layout.Wide() && d.api.Version < wideVersion {
		return nil, &backends.Unsupported{Backend: "cuda", What: fmt.Sprintf("a program with %d slots", len(u.IR.Slots)),
			Why: fmt.Sprintf("a launch block of %d bytes needs a driver for CUDA 12.1", p.Layout.Bytes)}
	}
	k := &kernel{device: d, program: p, slots: u.IR.Slots, types: u.IR.SlotTypes, params: u.IR.ParamTypes, cost: analysis.NewCost(u.IR),
		block: u.IR.Block, proved: v.Proved}
	k.variants.Store(&[]*variant{})
	if d.modern() {
		k.sums = kernels.ProductOf(u.Source)
	}
	if n := u.Meeting.Blocks; int64(n) <= d.meets() || n > promised && int64(n) <= d.most() {
		k.meeting = u.Meeting
	}
	if p.Residue {
		if err := d.loadFold(); err != nil {
			k.Release()
			return nil, err
		}
	}
	return k, nil
}

func (d *device) modern() bool { return d.compute >= 80 }

// form says which variant a launch needs.
func (k *kernel) form(l *backends.Launch, space *ptx.Space) form {
	if k.sums != nil {
		if f, ok := product.Match(*k.sums, l, product.Device{Processors: int(k.device.processors), Shared: int(k.device.sharedBytes), Compute: int(k.device.compute)}); ok {
			return form{product: f}
		}
	}
	return form{Options: k.options(l, space)}
}

// options says which variant of the program itself a launch needs.
func (k *kernel) options(l *backends.Launch, space *ptx.Space) ptx.Options {
	o := ptx.Options{Lanes: ownLanes, Proved: k.proved, Modern: k.device.modern(), Waits: k.device.waits()}
	if o.Batch = k.batch(l); o.Batch > 0 {
		o.Waits = false
	}
	if n := k.meeting.Blocks; n > 0 && l.Grid[0]%uint32(n) == 0 {
		o.Meeting = n
	}
	if k.program.Indexed && space.Rank > 1 {
		o.Rank, o.Wide = space.Rank, ptx.Lanes(l) > 1<<32-1
	}
	o.Fuel = k.program.Loops && l.Fuel > 0
	if !k.program.AnyBlock && k.block[0] == 0 && lanesOf(l.Block) > ownLanes {
		o.Lanes = isa.MaxBlockLanes
	}
	k.vectors(&o, l, space)
	o.Dense = o.Batch > 0 && o.Vector == 0 && k.program.Layout.Dense(l, space)
	o.Aligned = k.program.Neighbours && k.proved && o.Vector == 0 && aligned(l)
	if n := lanesOf(l.Block); k.program.Collective && !o.Fuel && l.N == uint64(n)*uint64(lanesOf(l.Grid)) && o.Whole(n) {
		o.Lanes, o.Block = 0, n
	}
	if o.Meeting > 0 && o.Block > 0 && o.Proved {
		o.Told = k.meeting.Told
	}
	o.Lasts = o.Waits && o.Meeting == 0 && (o.Vector > 0 || o.Block > 0) && k.lasts(l)
	return o
}

// aligned reports whether every slot of a launch lies at a multiple of 16 bytes.
func aligned(l *backends.Launch) bool {
	at := uintptr(0)
	for i := range l.Slots {
		at |= l.Slots[i].Addr
	}
	return at%16 == 0
}

// fewestBlocks is how many blocks there are for each multiprocessor before a lane
// does several elements.
const fewestBlocks = 4

// vectors makes a lane do several elements where all multiprocessors have work
// all the same. With less, more lanes do it sooner.
func (k *kernel) vectors(o *ptx.Options, l *backends.Launch, space *ptx.Space) {
	p := k.program
	if p.Vector == 0 || o.Fuel {
		return
	}
	lanes := ptx.Lanes(l)
	if o.Batch > 0 {
		lanes *= uint64(l.Batch) // as if all were like it
	}
	if !k.device.eager && lanes < fewestBlocks*uint64(k.device.processors)*uint64(ptx.VectorLanes*p.Vector*p.Groups) {
		return
	}
	if single, odd, ok := p.Vectors(space, l); ok {
		o.Lanes, o.Vector, o.Groups, o.Single, o.Odd = ptx.VectorLanes, p.Vector, p.Groups, single, odd
	}
}

// Specialize makes the variant that a launch needs: which one depends on addresses modulo 16,
// and on how many elements and bytes there are.
func (k *kernel) Specialize(l *backends.Launch, try bool) error {
	space, _ := k.spaces.Get().(*ptx.Space)
	if space == nil {
		space = new(ptx.Space)
	}
	defer k.spaces.Put(space)
	k.program.Layout.Fuse(l, space)
	f := k.form(l, space)
	if try && k.made(f) == nil {
		return backends.ErrPending
	}
	_, err := k.variant(f)
	return err
}

// Kept is backends.Keeper's.
func (k *kernel) Kept() bool { return k.kept.Load() }

func lanesOf(block [3]uint32) int { return int(block[0]) * int(block[1]) * int(block[2]) }

// variant returns a variant, compiled if it is the first time. There are few.
func (k *kernel) variant(f form) (*variant, error) {
	if v := k.made(f); v != nil {
		return v, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if v := k.made(f); v != nil {
		return v, nil
	}
	text, table, err := k.text(f)
	if err != nil {
		return nil, err
	}
	v, err := k.device.load(text, "atlas")
	if err != nil {
		return nil, err
	}
	if f.Meeting > promised {
		if err := k.device.do(call{"cuFuncSetAttribute", func() driver.Result { return k.device.api.FuncSetAttribute(v.fn, driver.FuncLargeClusters, 1) }}); err != nil {
			k.device.drop(v)
			return nil, err
		}
	}
	v.form, v.table = f, table
	k.kept.Store(v.kept)
	all := append(slices.Clip(*k.variants.Load()), v)
	k.variants.Store(&all)
	return v, nil
}

// text is the code of a variant, and the table of one of batches.
func (k *kernel) text(f form) (string, *ptx.Table, error) {
	if f.product.Is() {
		return product.Text(f.product, &k.program.Layout), nil, nil
	}
	if f.Batch == 0 {
		text, err := k.program.Text(f.Options)
		return text, nil, err
	}
	return k.program.Batched(f.Options)
}

// made returns a variant that is there, or nil.
func (k *kernel) made(f form) *variant {
	for _, v := range *k.variants.Load() {
		if v.form == f {
			return v
		}
	}
	return nil
}

// allowShared tells the driver of a function that needs more shared memory than
// functions have by default.
func (k *kernel) allowShared(v *variant, bytes int) error {
	const byDefault = 48 << 10
	if bytes <= byDefault || int64(bytes) <= v.shared.Load() {
		return nil
	}
	if bytes > int(k.device.sharedBytes) {
		return fmt.Errorf("a block needs %d bytes of shared memory, the device has %d", bytes, k.device.sharedBytes)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if int64(bytes) <= v.shared.Load() {
		return nil
	}
	err := k.device.do(call{"cuFuncSetAttribute", func() driver.Result {
		return k.device.api.FuncSetAttribute(v.fn, driver.FuncMaxShared, int32(bytes))
	}})
	if err == nil {
		v.shared.Store(int64(bytes))
	}
	return err
}

// check sees that a launch is for this kernel, and its views where the machine
// can take them.
func (k *kernel) check(l *backends.Launch) error {
	if len(l.Slots) != len(k.slots) || len(l.Params) != len(k.params) {
		return fmt.Errorf("cuda: launch: %d slots and %d parameters given, the program has %d and %d",
			len(l.Slots), len(l.Params), len(k.slots), len(k.params))
	}
	if n := lanesOf(l.Block); n < 1 || n > isa.MaxBlockLanes {
		return fmt.Errorf("cuda: launch: block %v has %d lanes; at most %d", l.Block, n, isa.MaxBlockLanes)
	}
	for i, v := range l.Slots {
		if size := uintptr(k.types[i].Size()); v.Addr%size != 0 {
			return fmt.Errorf("cuda: launch: slot %d: address %#x is no multiple of %d, the size of a %v", i, v.Addr, size, k.types[i])
		}
	}
	return nil
}

// What a launch costs: the driver's and the device's time for the least one, and
// for each instruction of a lane where all multiprocessors are at work.
const (
	launchNanoseconds = 4000
	stepNanoseconds   = 1e-4
)

func (k *kernel) Cost(l *backends.Launch) float64 {
	steps, bounded := k.cost.Of(l.N, l.Params)
	if !bounded {
		return math.Inf(1)
	}
	return launchNanoseconds + steps*stepNanoseconds
}

func (k *kernel) Workspace(*backends.Launch) int64 { return 0 }

// loadFold loads ptx.Fold.
func (d *device) loadFold() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fold != nil {
		return nil
	}
	v, err := d.load(ptx.Fold(), "fold")
	if err == nil {
		d.fold = v
	}
	return err
}

// Release unloads the modules. What the driver says to that has nobody to hear it.
func (k *kernel) Release() {
	k.mu.Lock()
	variants := *k.variants.Swap(&[]*variant{})
	k.mu.Unlock()
	k.device.unload(variants...)
}

// unload unloads modules that may have been launched: not to be called by who holds a
// stream.
func (d *device) unload(variants ...*variant) {
	functions := make([]driver.Func, len(variants))
	for i, v := range variants {
		functions[i] = v.fn
	}
	for _, s := range d.open() {
		_ = s.forget(functions)
	}
	for _, v := range variants {
		d.drop(v)
	}
}

// drop unloads a module that no stream knows.
func (d *device) drop(v *variant) {
	_ = d.do(call{"cuModuleUnload", func() driver.Result { return d.api.ModuleUnload(v.module) }})
}
