package cuda

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// fake is a driver without a GPU: it keeps count of calls, has memory of the
// host's, and does what is queued when it is told to run. Kernels do nothing but
// count. It fails what CUDA refuses of contexts and captures.
type fake struct {
	mu      sync.Mutex // of what is queued and of memory
	counts  sync.Mutex // of calls
	calls   map[string]int
	current driver.Context // of all threads
	queues  map[driver.Stream]*fakeQueue
	graphs  map[driver.Exec][]func()
	next    uintptr
	memory  map[uintptr]int64
	held    bool                   // queued work waits
	ran     int                    // kernels
	linked  int32                  // registers that functions of linked code have; others 33
	code    driver.Module          // of such code, the last that was loaded
	stray   int                    // waits for words that were freed
	foreign map[driver.Stream]bool // captured by others
	guests  []func()               // recorded in their graph
	objects map[driver.UserObject]unsafe.Pointer
	kept    []driver.UserObject // by their graph
	mode    int32               // capture mode of threads
	broken  int                 // calls that break others' captures, if there are some
	time    float64             // the device's, in milliseconds: a work takes one
	events  map[driver.Event]*fakeEvent
	spoiled int // events recorded while streams capture, or that have yet to pass
	modules map[driver.Module][]driver.Func
	waits   map[driver.Module]bool // whose code waits for what is before it, ahead of all else
	nodes   map[driver.Node]launched
	execs   map[driver.Exec]launched // of one kernel
	unfit   driver.Func              // that no graph takes
	stale   int                      // calls on graphs of functions that are unloaded, or other ones
	api     *driver.API
	// together is how large clusters may be that the device has room for.
	together uint32
}

type fakeQueue struct {
	work      []func()
	capturing bool
	captured  []func()
}

type fakeEvent struct {
	pending bool
	at      float64
}

const fakeContext driver.Context = 77

// fakeCode is what the fake's compiler makes.
var fakeCode = []byte("code of a program")

// Results of the driver's that the fake gives.
const (
	invalidValue   driver.Result = 1
	invalidContext driver.Result = 201
)

// waits reports whether PTX waits for what is before it ahead of each access to memory.
func waits(image *byte) bool {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(image), n)) != 0 {
		n++
	}
	text := string(unsafe.Slice(image, n))
	before, _, ok := strings.Cut(text, "griddepcontrol.wait;")
	return ok && !regexp.MustCompile(`\n\s*(@\S+ )?(ld\.(volatile\.)?global|ld\.relaxed|st\.|atom|red\.|cp\.|bra|ret)`).MatchString(before)
}

// count notes a call that needs the context, and says whether it has it.
func (f *fake) count(name string) driver.Result {
	f.counts.Lock()
	defer f.counts.Unlock()
	f.calls[name]++
	if f.current != fakeContext {
		return invalidContext
	}
	return driver.Success
}

// queue adds work to a stream, which f.mu guards.
func (f *fake) queue(name string, s driver.Stream, work func()) driver.Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.count(name)
	q := f.queues[s]
	switch {
	case r != driver.Success:
		return r
	case q == nil:
		return invalidValue
	case (q.capturing || f.foreign[s]) && (name == "write" || name == "wait" || name == "graph"):
		return driver.CaptureUnsupported
	case f.foreign[s]:
		f.guests = append(f.guests, work)
	case q.capturing:
		q.captured = append(q.captured, work)
	case f.held:
		q.work = append(q.work, work)
	default:
		work()
	}
	return driver.Success
}

// loaded reports whether a function's module is.
func (f *fake) loaded(fn driver.Func) bool {
	for _, all := range f.modules {
		if slices.Contains(all, fn) {
			return true
		}
	}
	return false
}

// run does what is queued.
func (f *fake) run() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.queues {
		for _, w := range q.work {
			w()
		}
		q.work = nil
	}
}

// end is what the driver does to an object that nobody has any more.
func (f *fake) end(o driver.UserObject) {
	purego.SyscallN(driver.TellGone(), uintptr(f.objects[o]))
	delete(f.objects, o)
}

// fakeGraph is what others capture.
const fakeGraph driver.Graph = 55

func (f *fake) number() uintptr { f.next++; return f.next }

func newFake() *fake {
	f := &fake{calls: map[string]int{}, queues: map[driver.Stream]*fakeQueue{1: {}}, graphs: map[driver.Exec][]func(){}, next: 100,
		modules: map[driver.Module][]driver.Func{}, waits: map[driver.Module]bool{}, nodes: map[driver.Node]launched{}, execs: map[driver.Exec]launched{},
		memory: map[uintptr]int64{}, foreign: map[driver.Stream]bool{}, objects: map[driver.UserObject]unsafe.Pointer{}, events: map[driver.Event]*fakeEvent{}}
	bytesAt := func(p driver.Pointer, n uint64) []byte { return hostmem.Bytes(uintptr(p), int64(n)) }
	alloc := func(name string, n uint64) (uintptr, driver.Result) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r := f.count(name); r != driver.Success {
			return 0, r
		}
		if f.mode != driver.CaptureRelaxed {
			return 0, driver.CaptureUnsupported
		}
		a, err := hostmem.Alloc(int64(n))
		if err != nil {
			return 0, driver.OutOfMemory
		}
		f.memory[a] = int64(n)
		return a, driver.Success
	}
	free := func(name string, a uintptr) driver.Result {
		f.mu.Lock()
		defer f.mu.Unlock()
		n, ok := f.memory[a]
		if r := f.count(name); r != driver.Success || !ok {
			return max(r, invalidValue)
		}
		delete(f.memory, a)
		_ = hostmem.Free(a, n)
		return driver.Success
	}
	ran := func() { f.ran++; f.time++ }
	text := []byte("FAKE\x00")
	attributes := map[driver.Attribute]int32{driver.ComputeMajor: 9, driver.SharedPerBlockOptin: 227 << 10, driver.Multiprocessors: 132}
	f.api = &driver.API{
		Version:         13000,
		GetErrorName:    func(_ driver.Result, p **byte) driver.Result { *p = &text[0]; return 0 },
		GetErrorString:  func(_ driver.Result, p **byte) driver.Result { *p = &text[0]; return 0 },
		DeviceGetCount:  func(n *int32) driver.Result { *n = 1; return 0 },
		DeviceGet:       func(*driver.Device, int32) driver.Result { return 0 },
		DeviceGetName:   func(p *byte, _ int32, _ driver.Device) driver.Result { *p = 'F'; return 0 },
		DeviceAttribute: func(v *int32, a driver.Attribute, _ driver.Device) driver.Result { *v = attributes[a]; return 0 },
		DeviceTotalMem:  func(n *uint64, _ driver.Device) driver.Result { *n = 1 << 30; return 0 },
		PrimaryRetain:   func(c *driver.Context, _ driver.Device) driver.Result { *c = fakeContext; return 0 },
		PrimaryRelease:  func(driver.Device) driver.Result { return 0 },
		CtxPush:         func(c driver.Context) driver.Result { f.calls["push"]++; f.current = c; return 0 },
		CtxPop:          func(*driver.Context) driver.Result { f.calls["pop"]++; f.current = 0; return 0 },
		CtxCurrent:      func(c *driver.Context) driver.Result { f.calls["current"]++; *c = f.current; return 0 },
		MemAlloc: func(p *driver.Pointer, n uint64) driver.Result {
			a, r := alloc("alloc", n)
			*p = driver.Pointer(a)
			return r
		},
		MemFree: func(p driver.Pointer) driver.Result { return free("free", uintptr(p)) },
		MemHostAlloc: func(p *unsafe.Pointer, n uint64, _ uint32) driver.Result {
			a, r := alloc("host alloc", n)
			if r == driver.Success {
				*p = hostmem.Pointer(a)
			}
			return r
		},
		MemInfo: func(left, total *uint64) driver.Result {
			*left, *total = 1<<30, 2<<30
			return f.count("info")
		},
		PointerAttributes: func(n uint32, attributes *driver.PointerAttribute, values *unsafe.Pointer, p driver.Pointer) driver.Result {
			f.mu.Lock()
			defer f.mu.Unlock()
			known := map[driver.PointerAttribute]uint64{}
			for at, bytes := range f.memory {
				if uintptr(p) >= at && uintptr(p) < at+uintptr(bytes) {
					known = map[driver.PointerAttribute]uint64{
						driver.PointerMemoryType: driver.MemoryTypeHost, driver.PointerRangeStart: uint64(at), driver.PointerRangeSize: uint64(bytes),
					}
				}
			}
			for i, attribute := range unsafe.Slice(attributes, n) {
				value := unsafe.Slice(values, n)[i]
				if attribute == driver.PointerMemoryType || attribute == driver.PointerOrdinal {
					*(*uint32)(value) = uint32(known[attribute])
				} else {
					*(*uint64)(value) = known[attribute]
				}
			}
			return driver.Success
		},
		MemFreeHost: func(p unsafe.Pointer) driver.Result { return free("host free", uintptr(p)) },
		Copy: func(dst, src driver.Pointer, n uint64, s driver.Stream) driver.Result {
			return f.queue("copy", s, func() { copy(bytesAt(dst, n), bytesAt(src, n)); f.time++ })
		},
		Set8: func(p driver.Pointer, v uint8, n uint64, s driver.Stream) driver.Result {
			return f.queue("set", s, func() {
				f.time++
				for i := range bytesAt(p, n) {
					bytesAt(p, n)[i] = v
				}
			})
		},
		StreamCreate: func(s *driver.Stream, _ uint32) driver.Result {
			f.mu.Lock()
			defer f.mu.Unlock()
			*s = driver.Stream(f.number())
			f.queues[*s] = &fakeQueue{}
			return f.count("stream")
		},
		StreamDestroy: func(s driver.Stream) driver.Result { delete(f.queues, s); return f.count("destroy") },
		StreamQuery: func(s driver.Stream) driver.Result {
			if f.queues[s].capturing || f.foreign[s] {
				return driver.CaptureUnsupported
			}
			if f.mode != driver.CaptureRelaxed {
				f.broken++
			}
			return f.count("query")
		},
		StreamSync: func(driver.Stream) driver.Result { return f.count("sync") },
		StreamIsCapturing: func(s driver.Stream, status *int32) driver.Result {
			*status = 0
			if f.foreign[s] || f.queues[s].capturing {
				*status = 1
			}
			return f.count("capturing")
		},
		StreamWriteValue: func(s driver.Stream, p driver.Pointer, v uint64, _ uint32) driver.Result {
			return f.queue("write", s, func() { *(*uint64)(hostmem.Pointer(uintptr(p))) = v })
		},
		StreamWaitValue: func(s driver.Stream, p driver.Pointer, v uint64, _ uint32) driver.Result {
			return f.queue("wait", s, func() {
				if f.memory[uintptr(p)] == 0 {
					f.stray++
				}
			})
		},
		EventCreate: func(e *driver.Event, flags uint32) driver.Result {
			if f.mode != driver.CaptureRelaxed || flags != 0 {
				return invalidValue
			}
			*e = driver.Event(f.number())
			f.events[*e] = &fakeEvent{}
			return f.count("event")
		},
		EventDestroy: func(e driver.Event) driver.Result { delete(f.events, e); return f.count("event destroy") },
		EventRecord: func(e driver.Event, s driver.Stream) driver.Result {
			event := f.events[e]
			if event == nil {
				return invalidValue
			}
			if f.queues[s].capturing || f.foreign[s] || event.pending {
				f.spoiled++
			}
			event.pending = true
			return f.queue("record", s, func() { event.pending, event.at = false, f.time })
		},
		EventElapsed: func(ms *float32, began, ended driver.Event) driver.Result {
			b, e := f.events[began], f.events[ended]
			switch {
			case b == nil || e == nil || e.at < b.at:
				return invalidValue
			case b.pending || e.pending:
				return driver.NotReady
			case f.mode != driver.CaptureRelaxed:
				f.broken++
			}
			*ms = float32(e.at - b.at)
			return f.count("elapsed")
		},
		CaptureInfo: func(s driver.Stream, status *int32, _ *uint64, g *driver.Graph, _ *uintptr, _ *uint64) driver.Result {
			*status = 0
			if f.foreign[s] {
				*status, *g = driver.CaptureActive, fakeGraph
			}
			return f.count("info")
		},
		UserObjectCreate: func(o *driver.UserObject, p unsafe.Pointer, tell uintptr, n, flags uint32) driver.Result {
			if tell != driver.TellGone() || n != 1 || flags != driver.NoDestructorSync {
				return invalidValue
			}
			*o = driver.UserObject(f.number())
			f.objects[*o] = p
			return f.count("object")
		},
		UserObjectRelease: func(o driver.UserObject, n uint32) driver.Result {
			if f.objects[o] == nil || n != 1 {
				return invalidValue
			}
			f.end(o)
			return f.count("object release")
		},
		GraphRetain: func(g driver.Graph, o driver.UserObject, n, flags uint32) driver.Result {
			if g != fakeGraph || f.objects[o] == nil || n != 1 || flags != driver.MoveReference {
				return invalidValue
			}
			f.kept = append(f.kept, o)
			return f.count("retain")
		},
		CaptureMode: func(m *int32) driver.Result { f.calls["mode"]++; f.mode, *m = *m, f.mode; return 0 },
		CaptureBegin: func(s driver.Stream, mode int32) driver.Result {
			q := f.queues[s]
			if q.capturing || mode != driver.CaptureRelaxed {
				return invalidValue
			}
			q.capturing, q.captured = true, nil
			return f.count("capture")
		},
		CaptureEnd: func(s driver.Stream, g *driver.Graph) driver.Result {
			q := f.queues[s]
			if !q.capturing {
				return invalidValue
			}
			q.capturing = false
			*g = driver.Graph(f.number())
			f.graphs[driver.Exec(*g)] = q.captured
			return f.count("capture end")
		},
		GraphCreate: func(g *driver.Graph, _ uint32) driver.Result {
			*g = driver.Graph(f.number())
			f.graphs[driver.Exec(*g)] = nil
			return f.count("graph create")
		},
		GraphAddKernel: func(n *driver.Node, g driver.Graph, _ *driver.Node, count uint64, k *driver.KernelNode) driver.Result {
			*n = driver.Node(g) // of which it is the only one
			f.nodes[*n] = launched{k.Func, k.Grid, k.Block, k.Shared}
			return f.count("add kernel")
		},
		GraphInstantiate: func(x *driver.Exec, g driver.Graph, _ uint64) driver.Result {
			*x = driver.Exec(f.number())
			f.graphs[*x] = f.graphs[driver.Exec(g)]
			if l, ok := f.nodes[driver.Node(g)]; ok {
				f.execs[*x] = l
			}
			return f.count("instantiate")
		},
		ExecSetKernel: func(x driver.Exec, n driver.Node, k *driver.KernelNode) driver.Result {
			f.mu.Lock()
			defer f.mu.Unlock()
			l := launched{k.Func, k.Grid, k.Block, k.Shared}
			if !f.loaded(l.fn) || f.execs[x] != l || f.nodes[n] != l {
				f.stale++
			}
			if k.Func == f.unfit {
				return invalidValue
			}
			return f.count("set kernel")
		},
		GraphDestroy: func(g driver.Graph) driver.Result {
			delete(f.graphs, driver.Exec(g))
			delete(f.nodes, driver.Node(g))
			return f.count("graph destroy")
		},
		ExecDestroy: func(x driver.Exec) driver.Result {
			delete(f.graphs, x)
			delete(f.execs, x)
			return f.count("exec destroy")
		},
		GraphLaunch: func(x driver.Exec, s driver.Stream) driver.Result {
			if _, ok := f.execs[x]; ok {
				f.count("single")
				return f.queue("launch", s, ran)
			}
			work := f.graphs[x]
			return f.queue("graph", s, func() {
				for _, w := range work {
					w()
				}
			})
		},
		ModuleLoad: func(m *driver.Module, image *byte, _ uint32, _ *int32, _ *uintptr) driver.Result {
			b := unsafe.Slice(image, 4)
			if string(b[:2]) == "no" {
				return invalidValue
			}
			*m = driver.Module(f.number())
			if string(b) == "code" {
				f.calls["module of code"]++
				f.code = *m
			}
			f.modules[*m] = nil
			f.waits[*m] = string(b) != "code" && waits(image)
			return f.count("module")
		},
		LinkCreate: func(_ uint32, _ *int32, _ *uintptr, l *driver.Link) driver.Result {
			*l = driver.Link(f.number())
			return f.count("link")
		},
		LinkAddData: func(_ driver.Link, kind int32, data *byte, n uint64, _ *byte, _ uint32, _ *int32, _ *uintptr) driver.Result {
			if kind != driver.LinkPTX || unsafe.Slice(data, n)[n-1] != 0 {
				return invalidValue
			}
			if strings.Contains(unsafe.String(data, n), "\n.maxnreg 40\n.maxntid ") {
				f.count("capped")
			}
			return f.count("link data")
		},
		LinkComplete: func(_ driver.Link, code *unsafe.Pointer, n *uint64) driver.Result {
			*code, *n = unsafe.Pointer(&fakeCode[0]), uint64(len(fakeCode))
			return f.count("compile")
		},
		LinkDestroy:  func(driver.Link) driver.Result { return f.count("link destroy") },
		ModuleUnload: func(m driver.Module) driver.Result { delete(f.modules, m); return f.count("unload") },
		ModuleFunction: func(fn *driver.Func, m driver.Module, _ *byte) driver.Result {
			*fn = driver.Func(f.number())
			f.modules[m] = append(f.modules[m], *fn)
			return 0
		},
		FuncAttribute: func(value *int32, attribute int32, fn driver.Func) driver.Result {
			if *value = 33; slices.Contains(f.modules[f.code], fn) {
				*value = f.linked
			}
			if attribute != driver.FuncRegisters {
				return invalidValue
			}
			return f.count("registers")
		},
		FuncSetAttribute: func(driver.Func, int32, int32) driver.Result { return f.count("attribute") },
		ActiveClusters: func(n *int32, fn driver.Func, c *driver.LaunchConfig) driver.Result {
			if !f.loaded(fn) || c.Count != 1 || c.Attributes.ID != driver.ClusterDimension || c.Grid[0] != c.Attributes.Value[0] {
				return invalidValue
			}
			if *n = 0; c.Grid[0] <= f.together {
				*n = 1
			}
			return f.count("clusters")
		},
	}
	f.api.LaunchEx = func(c *driver.LaunchConfig, fn driver.Func, params, _ *unsafe.Pointer) driver.Result {
		if c.Count != 1 || c.Attributes.ID != driver.Programmatic || c.Attributes.Value != [16]uint32{1} {
			return invalidValue
		}
		for m, all := range f.modules {
			if slices.Contains(all, fn) && !f.waits[m] {
				return invalidValue
			}
		}
		f.count("dependent")
		return f.queue("launch", c.Stream, ran)
	}
	f.api.Launch = func(_ driver.Func, gx, gy, gz, bx, by, bz, shared uint32, s driver.Stream, params, _ *unsafe.Pointer) driver.Result {
		return f.queue("launch", s, ran)
	}
	return f
}

// fakeRig is a device of a fake driver with a stream, a kernel and a launch.
type fakeRig struct {
	*fake
	d *device
	s *stream
	k backends.Kernel
	l backends.Launch
}

const fakeAdd = "slot a f32\nslot b f32\nslot c f32\n ldg.f32 x, a[index]\n ldg.f32 y, b[index]\n add.f32 x, x, y\n stg.f32 x, c[index]\n exit"

func compileUnit(t testing.TB, d backends.Device, text string, v backends.Variant) backends.Kernel {
	t.Helper()
	p, err := isa.Assemble("test", text)
	require.NoError(t, err)
	ok, err := isa.Verify(p)
	require.NoError(t, err)
	fn, _, err := ir.Canonical(ok)
	require.NoError(t, err)
	k, err := d.Compile(&backends.Unit{Source: ok, IR: fn, Hash: fn.Hash()}, v)
	require.NoError(t, err)
	return k
}

func newFakeRig(t testing.TB, text string, slots int) *fakeRig {
	t.Helper()
	return newFakeRigWith(t, text, slots, func(*fake, *Backend) {})
}

func newFakeRigWith(t testing.TB, text string, slots int, change func(*fake, *Backend)) *fakeRig {
	t.Helper()
	f := newFake()
	b := &Backend{load: func() (*driver.API, error) { return f.api, nil }, after: singleAfter, dependent: dependentBytes}
	change(f, b)
	d, err := b.Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	r := &fakeRig{fake: f, d: d.(*device), s: s.(*stream), k: compileUnit(t, d, text, backends.Variant{})}
	const n = 1024
	r.l = backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{n}, N: n, Grid: [3]uint32{4, 1, 1}, Block: [3]uint32{256, 1, 1}}
	for range slots {
		m, err := d.Alloc(4 * n)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Free(m)) })
		r.l.Slots = append(r.l.Slots, backends.View{Addr: m.Addr, Bytes: 4 * n, Type: isa.F32, Rank: 1, Shape: r.l.Shape, Stride: [isa.MaxRank]int64{1}})
	}
	return r
}

// close ends all that the rig has; nothing may be left.
func (r *fakeRig) close(t testing.TB) {
	r.k.Release()
	require.NoError(t, r.s.Close())
	require.NoError(t, r.d.Close())
	require.Zero(t, r.current, "a context is left behind")
	require.Zero(t, r.mode, "a capture mode is left behind")
	require.Zero(t, r.broken, "others' captures break by it")
	require.Zero(t, r.spoiled, "events recorded where they must not be")
	require.Empty(t, r.events)
	require.Empty(t, r.graphs)
	require.Empty(t, r.nodes)
	require.Empty(t, r.execs)
	require.Zero(t, r.stale, "the driver changes graphs to other functions, or looks at those that are unloaded")
	require.Len(t, r.queues, 1)
	require.Len(t, r.memory, len(r.l.Slots))
}

// anyThread makes the context current on all threads; else the fake takes them
// for one.
func (r *fakeRig) anyThread() {
	r.current = fakeContext
	r.api.CtxCurrent = func(c *driver.Context) driver.Result { *c = fakeContext; return driver.Success }
	r.api.CaptureMode = func(*int32) driver.Result { return driver.Success }
	r.mode = driver.CaptureRelaxed
}
