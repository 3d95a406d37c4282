package gemm

import (
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Version is that of this engine, a part of cache keys.
const Version = "gemm/1"

// Kernel is a program of a product's plan.
type Kernel struct {
	is     kernels.Product
	lib    *library
	t      number
	in     element
	out    element
	unit   multiplier
	params params
	other  *jit.Declined

	spare atomic.Pointer[launch] // for the next launch
}

// Declined reports whether there was a launch that the kernel declined.
func (k *Kernel) Declined() bool { return k.other.Any() }

// params are the numbers of a program's parameters.
type params struct {
	m, n, k, aRow, aCol, bRow, bCol, across, batch, aBatch, bBatch, parts, part, count, alpha, beta int
}

// Compile makes a kernel of a program that a product's plan launches. units, which the
// machine has, multiply integers of 8 and 16 bits, and bf16, with errors of their own
// (docs/REDUCTIONS.md). other makes, on demand, what runs the launches that it declines.
// *backends.Unsupported says why there is none.
func Compile(v *isa.Verified, l jit.Level, units Units, other func() (jit.Program, error)) (*Kernel, error) {
	is := kernels.ProductOf(v)
	if is == nil {
		return nil, &backends.Unsupported{Backend: "gemm", What: "the program", Why: "it is not the library's matrix product"}
	}
	k := &Kernel{is: *is, lib: narrow(), other: jit.NewDeclined("gemm: a launch that is not the library's", other)}
	if l&^jit.Few == jit.AVX512 {
		k.lib = wide()
	}
	k.t, k.in = numberOf(is.T)
	if k.out = k.in; is.Out != is.T {
		_, k.out = numberOf(is.Out)
	}
	k.unit = units.multiplierOf(is.T, is.Acc, is.Out, is.Scaled)
	if acc, _ := numberOf(is.Acc); k.t != acc || k.t == numbers || k.t == i64 && !k.lib.m.evex {
		return nil, &backends.Unsupported{Backend: "gemm", What: fmt.Sprintf("a product of %v in %v", is.T, is.Acc), Why: "there is no instruction that multiplies it"}
	}
	x := &k.params
	places := map[string]*int{"m": &x.m, "n": &x.n, "k": &x.k, "a_row": &x.aRow, "a_col": &x.aCol, "b_row": &x.bRow, "b_col": &x.bCol,
		"across": &x.across, "batch": &x.batch, "a_batch": &x.aBatch, "b_batch": &x.bBatch,
		"parts": &x.parts, "part": &x.part, "count": &x.count, "alpha": &x.alpha, "beta": &x.beta}
	for i, p := range v.Program.Params {
		*places[p.Name] = i
	}
	return k, nil
}

// Estimate is about what so many instructions of lanes take, in nanoseconds.
func (k *Kernel) Estimate(_ uint64, steps float64) float64 {
	switch {
	case k.unit.tiles():
		return 0.00015 * steps
	case k.unit != noMultiplier:
		return 0.0005 * steps
	}
	return 0.0015 * steps
}

// Release frees what runs declined launches.
func (k *Kernel) Release() { k.other.Release() }

// launch is one run of a kernel, shared by the workers that take part.
type launch struct {
	first          product // of the first matrix, and part
	record         *backends.Record
	batches, parts int64
	part, cPart    int64     // products in a part, and bytes from part to part of the result
	run            int64     // matrices of a stack that a task has
	high, wide     int64     // rows and columns of a task
	down, across   int64     // tasks in a matrix
	bands          int64     // of rows, whose tasks follow each other (place)
	packed         []packed  // blocks of B, of tasks' columns; or none
	states         []packing // of packed's chunks
	before         cutOf     // for the next launch
	later          int64     // columns behind those of first
	holder         *worker   // of the memory of what is packed for all; nil: each thread has its own
	stopped        atomic.Bool
	mu             sync.Mutex
	err            error
}

// vectorNanoseconds is what a product of two vectors takes, in about.
const vectorNanoseconds = 0.2

// storeNanoseconds is what a byte of the result takes to be written.
const storeNanoseconds = 0.02

// tasksOfThread is how many tasks there are for each thread, where more of them
// make no more work: another thread is there after some 50 µs.
const tasksOfThread = 4

// tasksOfSharer is how many there are where threads share what is packed, whose ends meet the
// sooner.
const tasksOfSharer = 16

// Run runs a launch to its end, on the caller's thread and, if there is enough
// to do, on workers. The error is ErrCancelled or nil, or says what the machine
// lacks.
func (k *Kernel) Run(l *backends.Launch, pool *workers.Pool) error {
	r, ok := k.prepare(l)
	if !ok {
		return k.other.Run(l, pool)
	}
	if r == nil {
		return nil
	}
	defer func() {
		r.record = nil
		k.spare.Store(r)
	}()
	return r.work(pool)
}

// work runs a launch to its end, as Kernel.Run does.
func (r *launch) work(pool *workers.Pool) error {
	defer r.giveBack()
	threads, chunk := pool.Share(r.nanoseconds())
	for again := true; again; again = r.advance() && r.err == nil && !r.stopped.Load() {
		tasks := r.divide(threads, chunk)
		if threads == 1 || tasks == 1 {
			r.alone(tasks)
		} else {
			pool.Run(int(tasks), r)
		}
	}
	switch {
	case r.err != nil:
		return r.err
	case r.stopped.Load():
		return backends.ErrCancelled
	}
	return nil
}

// nanoseconds estimates how long a launch takes.
func (r *launch) nanoseconds() float64 {
	return r.first.nanoseconds(r.part) * float64(r.batches*r.parts)
}

// divide cuts the result into tasks for so many threads, of which so many nanoseconds are
// worth one, and returns how many there are.
func (r *launch) divide(threads int, chunk float64) int64 {
	p := &r.first
	r.high, r.wide, r.down, r.across, r.bands, r.run = p.m, p.n, 1, 1, 1, 1
	lanes, panel := int64(p.lib.m.lanes(p.t)), p.lib.m.tallest(p.t, 2)
	byRows := !p.chains() && (p.takesRows(p.m) || p.packsRows(p.m))
	if byRows {
		panel = mostGroups * square(p.t)
	}
	if p.unit != noMultiplier {
		return r.divideUnits(threads, chunk)
	}
	matrices := r.batches * r.parts
	each := p.nanoseconds(r.part)
	if r.parts == 1 && p.run() > 1 {
		r.run = min(p.run(), r.batches)
		if threads > 1 {
			r.run = min(r.run, ceil(r.batches, int64(threads)*tasksOfThread))
		}
		return ceil(r.batches, r.run)
	}
	packs := p.packsB(p.m) && !p.isWidened()
	if want := int64(each / chunk); threads > 1 && matrices < int64(threads)*4 && want >= 2 {
		n := min(want, int64(threads))
		shares := matrices == 1 && packs && !byRows
		columns := p.n >= n*4*lanes // for each, who packs its own of B
		switch {
		case shares && r.share(n, want):
		case matrices == 1 && !byRows && p.m > panel && !packs && !p.isWidened() && each < float64(n)*longShare:
			h := p.shape(p.m, p.n)
			r.cut(r.soonest(&h, n, p.unitOfRows()))
		case byRows || p.m > panel && !packs && !(columns && p.m < n*panel): // whoever comes late does less
			rows := ceil(p.m, min(want, int64(threads)*tasksOfThread))
			r.high = max(1, (rows+panel/2)/panel) * panel
			r.down = ceil(p.m, r.high)
		case columns:
			r.wide = ceil(ceil(p.n, lanes), n) * lanes
			r.across = ceil(p.n, r.wide)
		default:
			r.high = ceil(p.m, n)
			r.down = ceil(p.m, r.high)
		}
	}
	return matrices * r.down * r.across
}

// nanoseconds estimates how long it takes, or so much of k of it.
func (p *product) nanoseconds(k int64) float64 {
	if p.unit != noMultiplier {
		return p.unitNanoseconds(k)
	}
	return p.tileNanoseconds(p.m, p.n)*float64(min(p.k, k)+8)/float64(p.k+8) + storeNanoseconds*float64(p.m*p.n*p.out.size)
}

// tileNanoseconds estimates how long so many rows and columns take.
func (p *product) tileNanoseconds(rows, cols int64) float64 {
	return float64(rows) * float64(ceil(cols, int64(p.lib.m.lanes(p.t)))) * float64(p.k+8) * vectorNanoseconds
}

// task computes a part of the result.
func (r *launch) task(w *worker, i int64) {
	p := &w.own
	*p = r.first
	if r.run > 1 {
		first := i * r.run
		p.a += uintptr(first * p.aNext)
		p.b += uintptr(first * p.bNext)
		p.c += uintptr(first * p.cNext())
		w.stack(p, min(r.run, r.batches-first))
		return
	}
	d, j := r.place(i % (r.down * r.across))
	i /= r.down * r.across
	part, batch := i%r.parts, i/r.parts
	p.a += uintptr(batch*p.aNext + part*r.part*p.acs)
	p.b += uintptr(batch*p.bNext + part*r.part*p.brs)
	p.c += uintptr(batch*p.cNext() + part*r.cPart)
	p.k = min(p.k-part*r.part, r.part)
	block := (*packed)(nil)
	if len(r.packed) > 0 {
		block = &r.packed[j]
	}
	w.block(p, d*r.high, min((d+1)*r.high, p.m), j*r.wide, min((j+1)*r.wide, p.n), block)
}

// place returns which rows and columns a task of a matrix has. Tasks go down the rows of a band, by one block
// of columns after the other, and then on to the next band.
func (r *launch) place(i int64) (d, j int64) {
	band := ((i/r.across+1)*r.bands - 1) / r.down
	from, end := r.down*band/r.bands, r.down*(band+1)/r.bands
	i -= from * r.across
	return from + i%(end-from), i / (end - from)
}

// alone runs the launch on the caller's thread.
func (r *launch) alone(tasks int64) {
	defer fpenv.Leave(fpenv.Enter())
	w := takeWorker(workers.Seat{}, r.record)
	defer r.leave(workers.Seat{}, w)
	for i := int64(0); i < tasks && w.err == nil && !w.stopped; i++ {
		r.task(w, i)
	}
}

// Run takes part in a launch: it runs task after task. It is for the pool.
func (r *launch) Run(j *workers.Job, at workers.Seat) {
	w := takeWorker(at, r.record)
	defer r.leave(at, w)
	for i, ok := j.Next(&at); ok && w.err == nil && !w.stopped; i, ok = j.Next(&at) {
		r.task(w, int64(i))
	}
}

// leave tells the launch how a worker did.
func (r *launch) leave(at workers.Seat, w *worker) {
	if w.stopped {
		r.stopped.Store(true)
	}
	if w.err != nil {
		r.mu.Lock()
		r.err = w.err
		r.mu.Unlock()
	}
	giveWorker(at, w)
}

// freeWorkers are those of other launches, whose memory is kept.
var freeWorkers workers.Kept[worker]

func takeWorker(at workers.Seat, record *backends.Record) *worker {
	w := freeWorkers.Take(at)
	if w == nil {
		w = &worker{}
	}
	w.record, w.err, w.stopped, w.holds = record, nil, false, nil
	return w
}

func giveWorker(at workers.Seat, w *worker) {
	w.record, w.p = nil, nil
	if left := freeWorkers.Give(at, w); left != nil {
		left.free()
	}
}

// Trim gives back the memory that is kept for launches to come, and returns its size in bytes.
func Trim() (bytes int64) {
	all := freeWorkers.Clear()
	holders.mu.Lock()
	all = append(all, holders.free[:]...)
	clear(holders.free[:])
	holders.mu.Unlock()
	for _, w := range all {
		if w != nil {
			for i := range w.rooms {
				bytes += w.rooms[i].Bytes
			}
			w.free()
		}
	}
	return bytes
}

// maxBytes bounds sizes and strides, so that sums of products of them fit int64.
const maxBytes = 1 << 46

// prepare makes the product of a launch. Everybody may launch the program, with
// parameters and slots of their own: ok is false where these are not as a plan
// has them, which is then left to what looks at each address. r is nil if there is
// nothing to do.
func (k *Kernel) prepare(l *backends.Launch) (r *launch, ok bool) {
	if l.Fuel > 0 {
		return nil, false
	}
	param := func(i int) int64 {
		v := l.Params[i]
		if v > maxBytes {
			ok = false
		}
		return int64(min(v, maxBytes))
	}
	ok = true
	m, n, kk := param(k.params.m), param(k.params.n), param(k.params.k)
	across := param(k.params.across)
	p := product{lib: k.lib, t: k.t, in: k.in, out: k.out, m: m, n: n, k: kk,
		a: l.Slots[0].Addr, b: l.Slots[1].Addr, c: l.Slots[2].Addr,
		ars: param(k.params.aRow), acs: param(k.params.aCol), brs: param(k.params.bRow), bcs: param(k.params.bCol),
		crs: n * k.out.size, ccs: k.out.size, scaled: k.is.Scaled, unit: k.unit}
	if r = k.spare.Swap(nil); r == nil {
		r = &launch{}
	}
	r.record, r.batches, r.parts, r.part, r.cPart, r.later, r.err = l.Record, 1, 1, max(kk, 1), 0, 0, nil
	r.stopped.Store(false)
	first, count := int64(0), int64(0) // of the matrices; elements of a part
	if k.is.Batched {
		first, r.batches = param(k.params.batch), int64(l.Grid[2])
		p.aNext, p.bNext = param(k.params.aBatch), param(k.params.bBatch)
		p.a += uintptr(first * p.aNext)
		p.b += uintptr(first * p.bNext)
		p.c += uintptr(first * m * n * k.out.size)
	}
	if k.is.Split {
		r.parts, r.part, count = param(k.params.parts), param(k.params.part), param(k.params.count)
		r.cPart = min(count, maxBytes/8) * k.out.size
	}
	if !ok || !r.inSlots(&p, l, first) || !k.splits(r, &p, l, first, count) || !k.hasLanes(l, m, n, across) {
		return nil, false
	}
	if m == 0 || n == 0 || r.batches == 0 {
		return nil, true
	}
	if p.scaled {
		p.scale(l.Params[k.params.alpha], l.Params[k.params.beta], 64-8*k.is.Acc.Size())
	}
	if p.tooSmallForUnits() {
		p.unit = noMultiplier
	}
	r.first = p.orient()
	return r, true
}

// inSlots reports whether all matrices of a launch up to its last one lie in its slots.
func (r *launch) inSlots(p *product, l *backends.Launch, first int64) bool {
	all := first + r.batches
	return within(l.Slots[0].Bytes, p.in.size, all, p.aNext, p.m, p.ars, p.k, p.acs) &&
		within(l.Slots[1].Bytes, p.in.size, all, p.bNext, p.k, p.brs, p.n, p.bcs) &&
		within(l.Slots[2].Bytes, p.out.size, all, min(p.m*p.n, maxBytes/8)*p.out.size, p.m, p.crs, p.n, p.ccs)
}

// splits reports whether k is in as many parts as the plan would make, which lie in the result's slot.
func (k *Kernel) splits(r *launch, p *product, l *backends.Launch, first, count int64) bool {
	long := k.is.T.Float() && r.part > k.is.Most // order shows; of integers the same program has parts of any length
	if !k.is.Split {
		return !long && l.Grid[1] == 1 && l.Block[2] == 1
	}
	each := p.m * p.n
	return r.part >= 1 && !long && r.parts == max(1, ceil(p.k, r.part)) && r.parts <= int64(l.Grid[1])*int64(l.Block[2]) &&
		count >= r.batches*each && within(l.Slots[2].Bytes, p.out.size, r.parts, r.cPart, first+r.batches, each*p.out.size, each, p.out.size)
}

// hasLanes reports whether every element has its lane.
func (k *Kernel) hasLanes(l *backends.Launch, m, n, across int64) bool {
	lanes := uint64(1)
	for i := range 3 {
		hi, lo := bits.Mul64(lanes, uint64(l.Grid[i])*uint64(l.Block[i]))
		if hi != 0 {
			return false
		}
		lanes = lo
	}
	return l.N == lanes && (k.is.Batched || l.Grid[2] == 1) && across >= 1 && int64(l.Grid[0])%across == 0 &&
		across*int64(l.Block[0]) >= n && int64(l.Grid[0])/across*int64(l.Block[1]) >= m
}

// scale has alpha and beta follow the product, of which integers have but so many bits less than 64.
func (p *product) scale(alpha, beta uint64, others int) {
	p.alpha, p.beta = alpha, beta
	switch p.t {
	case f32:
		p.reads, p.scaled = math.Float32frombits(uint32(beta)) != 0, math.Float32frombits(uint32(alpha)) != 1
	case f64:
		p.reads, p.scaled = math.Float64frombits(beta) != 0, math.Float64frombits(alpha) != 1
	case i32:
		p.reads, p.scaled = beta<<others != 0, alpha<<others != 1<<others
	default:
		p.reads = beta != 0
	}
}

// within reports whether elements of a stack of matrices, of sizes and byte
// strides that are not negative, lie within so many bytes.
func within(bytes, size, batches, batch, rows, row, cols, col int64) bool {
	if batches == 0 || rows == 0 || cols == 0 {
		return true
	}
	last := uint64(size)
	for _, x := range [...][2]int64{{batches - 1, batch}, {rows - 1, row}, {cols - 1, col}} {
		hi, lo := bits.Mul64(uint64(x[0]), uint64(x[1]))
		if hi != 0 || lo > 1<<60 {
			return false
		}
		last += lo
	}
	return last <= uint64(max(bytes, 0))
}
