package core

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

// TestLifetimes makes, uses and ends executors, buffers, views, leases, graphs,
// memory and streams of others in orders of chance, beside a model, of bytes and
// counts, that says of each call what it does or why it is refused. What is read
// must be what the model holds; memory must be in use as long as somebody uses it
// and no longer; and owners are told once, when nobody does any more.
//
// A failure names its seed, and the fewest steps that still fail. HOLOGRAM_STRESS
// is how many times as many seeds there are.
func TestLifetimes(t *testing.T) {
	times, err := strconv.Atoi(os.Getenv("HOLOGRAM_STRESS"))
	if err != nil {
		times = 1
	}
	for name, options := range lifetimeDevices {
		seeds := 10 * times
		if options == nil { // on which they take a tenth of the time
			seeds *= 10
		}
		if instrumented {
			seeds = (seeds + 4) / 5
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			within(t, name, func() {
				for seed := range uint64(seeds) {
					if err := playLifetimes(options, seed, nil); err != nil {
						t.Errorf("seed %d: %v", seed, shrunk(options, seed, err))
						return
					}
				}
			})
		})
	}
}

// lifetimeDevices are those of testDevices, and one with a stream that is slow: nil is the host's.
var lifetimeDevices = map[string]*asynctest.Options{
	"cpu":   nil,
	"async": {Delay: 20 * time.Microsecond, Devices: 2, DLPackType: 2, Workspace: 500},
	"slow":  {Delay: 150 * time.Microsecond, Devices: 2, DLPackType: 2, Workspace: 500, Specialize: true},
	"visible": {Delay: 20 * time.Microsecond, DLPackType: 2, HostVisible: true, Plans: true, Specialize: true,
		Variants: backends.Variant{Packed: true, Proved: true, NoFuel: true}},
	"quiet": {Delay: 20 * time.Microsecond, Devices: 2, DLPackType: 2, Workspace: 500, Enters: true, Variants: backends.Variant{Proved: true}},
}

const lifetimeSteps = 150

// lifeFailure is what a life panics with, for what differs from the model.
type lifeFailure string

func (l *life) fail(format string, args ...any) { panic(lifeFailure(fmt.Sprintf(format, args...))) }

// playLifetimes makes the steps of a seed but those left out.
func playLifetimes(o *asynctest.Options, seed uint64, without map[int]bool) (err error) {
	l := &life{r: rand.New(rand.NewPCG(seed, 1<<40))}
	defer func() {
		if what := recover(); what != nil {
			text, ok := what.(lifeFailure)
			if !ok {
				panic(fmt.Sprintf("seed %d: %v, after\n%s", seed, what, strings.Join(l.trace, "\n")))
			}
			err = fmt.Errorf("%s, after\n%s", text, strings.Join(l.trace, "\n"))
			l.abandon()
		}
	}()
	l.open(o)
	for i := range lifetimeSteps {
		if !without[i] {
			l.r = rand.New(rand.NewPCG((seed+1)*0x9e3779b97f4a7c15, (uint64(i)+1)*0xbf58476d1ce4e5b9))
			l.step()
			l.reported()
		}
	}
	l.end()
	return nil
}

// shrunk leaves steps out for as long as those that are left fail, for some seconds.
func shrunk(o *asynctest.Options, seed uint64, err error) error {
	without := map[int]bool{}
	until := time.Now().Add(10 * time.Second)
	for size := lifetimeSteps / 2; size > 0; size /= 2 {
		for from := 0; from < lifetimeSteps && time.Now().Before(until); from += size {
			fewer := map[int]bool{}
			for i := range lifetimeSteps {
				fewer[i] = without[i] || i >= from && i < from+size
			}
			if again := playLifetimes(o, seed, fewer); again != nil {
				without, err = fewer, again
			}
		}
	}
	return err
}

// life is a device with all that was made on it, and the model of it.
type life struct {
	r       *rand.Rand
	trace   []string
	backend *asynctest.Backend // nil: the host's
	devices []*Device
	told    atomic.Pointer[string] // a breach
	inUse   []int64                // of the devices, with nothing made
	checker []*Executor            // of each device, which never captures and has no errors

	executors []*lifeExecutor // closed ones too
	buffers   []*lifeBuffer   // freed ones too
	arrays    []*lifeArray
	leases    []*lifeLease
	graphs    []*lifeGraph
	theirs    []*asynctest.Foreign
	lent      []*lifeLent // graphs of others
	reads     []*lifeRead
	memory    []*lifeMemory
	tolds     []*lifeTold
	copies    []*Event
	had       [][]byte // where reads went that are over
	triple    *Program
	stray     *Program
}

// lifeMemory is a stretch of memory: what is in it, and how many use it.
type lifeMemory struct {
	data    []byte
	users   int
	account *lifeExecutor // whose Used it counts in, with so many bytes; nil: it is of others
	bytes   int64
	addr    uintptr // of others
	freed   *atomic.Int32
	deleter bool
	array   bool // for calls
	host    []byte
	device  int
}

// lifeView is how elements lie in memory.
type lifeView struct {
	mem           *lifeMemory
	dtype         isa.Type
	shape, stride []int64
	at            []int64 // the byte of each element, row-major
}

func (v *lifeView) get(i int) int64 {
	switch d := v.mem.data[v.at[i]:]; v.dtype {
	case isa.U8:
		return int64(d[0])
	case isa.I16:
		return int64(int16(uint16(d[0]) | uint16(d[1])<<8))
	default:
		return int64(int32(uint32(d[0]) | uint32(d[1])<<8 | uint32(d[2])<<16 | uint32(d[3])<<24))
	}
}

func (v *lifeView) set(i int, x int64) {
	for k := range v.dtype.Size() {
		v.mem.data[v.at[i]+int64(k)] = byte(x >> (8 * k))
	}
}

func (v *lifeView) bytes() []byte {
	var out []byte
	for _, at := range v.at {
		out = append(out, v.mem.data[at:at+int64(v.dtype.Size())]...)
	}
	return out
}

// elements lists where the elements of a shape are.
func elements(first, size int64, shape, stride []int64) []int64 {
	at := []int64{first}
	for k, n := range shape {
		next := make([]int64, 0, int64(len(at))*n)
		for _, a := range at {
			for i := range n {
				next = append(next, a+i*stride[k]*size)
			}
		}
		at = next
	}
	return at
}

// broadcast lists the elements of v that those of a shape are made of, or nil.
func (v *lifeView) broadcast(shape []int64) []int64 {
	if len(v.shape) > len(shape) {
		return nil
	}
	stride := make([]int64, len(shape))
	for k := range v.shape {
		at := len(shape) - len(v.shape) + k
		switch {
		case v.shape[k] == shape[at]:
			stride[at] = v.stride[k]
		case v.shape[k] != 1:
			return nil
		}
	}
	if len(v.at) == 0 {
		return []int64{}
	}
	return elements(v.at[0], int64(v.dtype.Size()), shape, stride)
}

type lifeExecutor struct {
	ex       *Executor
	device   int
	closed   bool
	boundary *lifeMemory
	capture  *lifeGraph
	// Whether there are errors that nobody has seen, of its own stream and of others'.
	fault, theirs certainty
}

// certainty is whether something is so.
type certainty int

const (
	no certainty = iota
	maybe
	yes
)

type lifeBuffer struct {
	lifeView
	b        *Buffer
	ex       *lifeExecutor
	offset   int64 // of element 0, in bytes of the memory
	readOnly bool
	freed    bool
	class    int
	within   []int64 // what its views keep to; nil: all the memory
}

// lifeArray is memory of others for calls on one stream of one executor.
type lifeArray struct {
	lifeView
	ex       *lifeExecutor
	stream   int // of theirs, or −1 for the executor's own
	operand  Operand
	readOnly bool
}

type lifeLease struct {
	lease *Lease
	mem   *lifeMemory
}

// lifeGraph is captured work: what it does, and uses.
type lifeGraph struct {
	g        *Graph
	ex       *lifeExecutor
	works    []func()
	uses     []*lifeMemory
	toTell   []*lifeTold
	faults   bool
	released bool
	last     *Event // of a replay
}

// lifeLent is what the owner of a stream captured of calls for it.
type lifeLent struct {
	g      *asynctest.ForeignGraph
	stream int
	works  []func()
}

// lifeTold is a call whose deleter is to be told when nobody uses its arrays.
type lifeTold struct {
	times atomic.Int32
	want  int32
}

// lifeRead is a read that is under way.
type lifeRead struct {
	ev     *Event
	ex     *lifeExecutor
	got    []byte
	want   []byte
	fault  certainty
	broken bool // it was cancelled, or its executor closed
}

func (l *life) open(o *asynctest.Options) {
	var err error
	if o == nil {
		d, no := DeviceFor("cpu")
		l.devices, err = []*Device{d}, no
	} else {
		options := *o
		options.Report = func(s string) { l.told.CompareAndSwap(nil, &s) }
		l.backend = asynctest.New(options)
		for i := range max(1, o.Devices) {
			dev, no := l.backend.Open(i)
			l.must(no)
			d, no := newDevice(fmt.Sprint("async:", i), l.backend, dev)
			l.must(no)
			l.devices = append(l.devices, d)
		}
		for range 2 {
			l.theirs = append(l.theirs, l.backend.NewForeign(0))
		}
		if l.r.IntN(2) == 0 { // so many that an executor forgets some
			for range 2 * maxForeign {
				l.theirs = append(l.theirs, l.backend.NewForeign(0))
			}
		}
	}
	l.must(err)
	for _, d := range l.devices {
		l.inUse = append(l.inUse, d.MemoryStats().InUse)
		ex, err := d.NewExecutor()
		l.must(err)
		l.checker = append(l.checker, ex)
	}
	l.triple, err = Assemble("triple", "program triple\nslot x i32\nslot y i32\nparam k i32\nldp.i32 k, k\nldg.i32 v, x[index]\n"+
		"mul.i32 v, v, 3\nadd.i32 v, v, k\nstg.i32 v, y[index]\nexit", nil)
	l.must(err)
	l.stray, err = Assemble("stray", "program stray\nslot c i32\nparam at u64\nldp.u64 at, at\nstg.i32 1, c[at]\nexit", nil)
	l.must(err)
}

func (l *life) must(err error) {
	if err != nil {
		l.fail("%v", err)
	}
}

func (l *life) reported() {
	if s := l.told.Load(); s != nil {
		l.fail("%s", *s)
	}
}

func (l *life) note(format string, args ...any) {
	l.trace = append(l.trace, fmt.Sprintf(format, args...))
}

// refusal is why a call must, or may, be refused.
type refusal struct{ must, may []Code }

func (f *refusal) when(so bool, code Code) {
	if so {
		f.must = append(f.must, code)
	}
}

func (f *refusal) perhaps(so bool, code Code) {
	if so {
		f.may = append(f.may, code)
	}
}

// took holds what became of a call against the model, and tells whether it was made.
func (l *life) took(what string, f *refusal, err error) bool {
	code := CodeOf(err)
	l.note("%s: %v", what, err)
	switch {
	case err == nil && len(f.must) > 0:
		l.fail("%s was made; expected a refusal of kind %v", what, f.must)
	case err != nil && !slices.Contains(f.must, code) && !slices.Contains(f.may, code):
		l.fail("%s: %v (kind %d); expected kinds %v, or perhaps %v", what, err, code, f.must, f.may)
	}
	return err == nil
}

// one is one of a list, more often one of the last.
func one[T any](l *life, list []T) (found T, ok bool) {
	if len(list) == 0 {
		return found, false
	}
	if n := len(list); n > 6 && l.r.IntN(3) > 0 {
		return list[n-1-l.r.IntN(6)], true
	}
	return list[l.r.IntN(len(list))], true
}

// used checks, once all work is over, that memory is in use while somebody uses it.
func (l *life) used() {
	for _, e := range l.executors {
		if e.capture != nil { // nobody can wait for it
			return
		}
	}
	for _, g := range l.graphs {
		l.over(g)
	}
	l.copied()
	for _, e := range l.executors {
		l.synchronize(e)
	}
	for _, s := range l.theirs {
		s.Synchronize()
	}
	for _, c := range l.checker { // once more, after the streams of others
		l.must(wait(c.Synchronize()))
	}
	sums := map[*lifeExecutor]int64{}
	for _, m := range l.memory {
		switch {
		case m.account != nil && m.users > 0:
			sums[m.account] += m.bytes
		case m.array:
		case m.account == nil && m.users > 0 && m.freed.Load() != 0:
			l.fail("the owner of memory of others was told, and it is used")
		case m.account == nil && m.users == 0 && m.deleter && soon(m.freed, 1) != 1:
			l.fail("the owner of memory of others was told %d times that it is free", m.freed.Load())
		}
	}
	for _, t := range l.tolds {
		if n := soon(&t.times, t.want); n != t.want {
			l.fail("the owner of the memory of a call was told %d times that it is over; expected %d", n, t.want)
		}
	}
	for _, data := range l.had {
		if slices.ContainsFunc(data, func(b byte) bool { return b != 0xee }) {
			l.fail("the caller's memory is written after his read is over")
		}
	}
	for i, e := range l.executors {
		e.ex.mu.Lock()
		for _, s := range e.ex.foreign {
			if s.users != 0 {
				e.ex.mu.Unlock()
				l.fail("a stream of others has %d users in executor %d", s.users, i)
			}
		}
		e.ex.mu.Unlock()
		if got := e.ex.Used(); got != sums[e] {
			l.fail("executor %d uses %d bytes; expected %d", i, got, sums[e])
		}
	}
}

// soon is how often an owner has been told, once it is as often as is expected, or for a
// while not: whoever looks at a stream's works lets go of them when others may already know
// that they have passed.
func soon(times *atomic.Int32, want int32) int32 {
	for end := time.Now().Add(5 * time.Second); times.Load() < want && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond)
	}
	return times.Load()
}

// same checks what a buffer holds, by the checker.
func (l *life) same(b *lifeBuffer) {
	if b.freed {
		return
	}
	got := l.contents(b.ex.device, b.b, b.dtype, int64(len(b.at)))
	if want := b.bytes(); string(got) != string(want) {
		l.fail("buffer %d holds %v; expected %v", slices.Index(l.buffers, b), got, want)
	}
}

func (l *life) contents(device int, b *Buffer, t isa.Type, n int64) []byte {
	if n == 0 {
		return nil
	}
	packed, err := l.checker[device].Allocate(n, t, false)
	l.must(err)
	defer packed.Free()
	view := packed
	if b.shape != nil {
		view, err = packed.View(0, b.shape.size[:b.shape.rank], nil)
		l.must(err)
		defer view.Free()
	}
	l.must(wait(view.CopyFrom(b)))
	data := hostBytes(n * int64(t.Size()))
	l.must(wait(packed.Read(addressOf(data), 0, int64(len(data)))))
	return data
}
