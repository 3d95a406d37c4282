package asynctest

import (
	"errors"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

const double = `
program double
slot a u32
slot c u32
  ldg.u32 x, a[index]
  add.u32 x, x, x
  stg.u32 x, c[index]
  exit`

const endless = `
program endless
slot a u32
slot c u32
again:
  stg.u32 1, c[index]
  bra again
  exit`

// stray stores beyond c in lane 7, adds to a residue and advances the phase.
const stray = `
program stray
slot a u32
slot c u32
  sreg q, lane.x
  set.ne.u32 p, q, 7
  bra fine, p
  stg.u32 1, c[4000]
fine:
  mov.u8 class, 5
  mov.u64 two, 2
  res_accum class, two
  phase_adv 3
  exit`

const n = 100

// reports collects what the backend reports.
type reports struct {
	mu   sync.Mutex
	all  []string
	seen int
}

func (r *reports) add(s string) {
	r.mu.Lock()
	r.all = append(r.all, s)
	r.mu.Unlock()
}

// next requires one new report with the given text.
func (r *reports) next(t *testing.T, text string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Len(t, r.all, r.seen+1, "reports")
	require.Contains(t, r.all[r.seen], text)
	r.seen++
}

// none requires that there is no new report.
func (r *reports) none(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.all[r.seen:], "reports")
}

// rig is a device with a program compiled and memory for its two slots.
type rig struct {
	*testing.T
	reports reports
	b       *Backend
	d       backends.Device
	s       *stream
	k       backends.Kernel
	m       [2]backends.Memory
	host    backends.Memory // of AllocHost, for 2·n elements
	l       backends.Launch
}

func compile(t testing.TB, d backends.Device, text string, v backends.Variant) backends.Kernel {
	t.Helper()
	k, err := d.Compile(unit(t, text), v)
	require.NoError(t, err)
	return k
}

func unit(t testing.TB, text string) *backends.Unit {
	t.Helper()
	p, err := isa.Assemble("test.atlas", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	return &backends.Unit{Source: v, IR: f}
}

func newRig(t *testing.T, o Options, text string) *rig {
	t.Helper()
	r := &rig{T: t}
	if o.Report == nil {
		o.Report = r.reports.add
	}
	r.b = New(o)
	var err error
	r.d, err = r.b.Open(0)
	require.NoError(t, err)
	r.k = compile(t, r.d, text, o.Variants)
	r.s = r.stream()
	r.host, err = r.d.AllocHost(8 * n)
	require.NoError(t, err)
	for i := range r.m {
		r.m[i] = r.alloc(4 * n)
	}
	r.l = r.launch(r.m[0], r.m[1])
	t.Cleanup(func() {
		require.NoError(t, r.s.Close())
		require.NoError(t, r.d.Close())
		r.reports.none(t)
	})
	return r
}

// stream makes another stream, which the test closes if it is not the rig's.
func (r *rig) stream() *stream {
	r.Helper()
	s, err := r.d.NewStream()
	require.NoError(r, err)
	return s.(*stream)
}

// second is a stream that is closed with the rig.
func (r *rig) second() *stream {
	s := r.stream()
	r.Cleanup(func() { require.NoError(r, s.Close()) })
	return s
}

func (r *rig) alloc(bytes int64) backends.Memory {
	r.Helper()
	m, err := r.d.Alloc(bytes)
	require.NoError(r, err)
	return m
}

// launch describes the launch over n elements.
func (r *rig) launch(slots ...backends.Memory) backends.Launch {
	l := backends.Launch{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{n, 1, 1}, Rank: 1, N: n}
	l.Shape[0] = n
	for _, m := range slots {
		w := backends.View{Addr: m.Addr, Bytes: 4 * n, Type: isa.U32, Rank: 1}
		w.Shape[0], w.Stride[0] = n, 1
		l.Slots = append(l.Slots, w)
	}
	return l
}

// record is a record in memory of AllocHost.
func (r *rig) record() *backends.Record {
	r.Helper()
	m, err := r.d.AllocHost(int64(unsafe.Sizeof(backends.Record{})))
	require.NoError(r, err)
	return (*backends.Record)(hostmem.Pointer(m.Addr))
}

// must is the ticket of a call that does not fail.
func (r *rig) must(t backends.Ticket, err error) backends.Ticket {
	r.Helper()
	require.NoError(r, err)
	return t
}

// finish waits for a ticket and returns what Wait does.
func (r *rig) finish(s backends.Stream, t backends.Ticket) error {
	r.Helper()
	err := s.Wait(t, 20*time.Second)
	require.False(r, errors.Is(err, backends.ErrPending), "it takes for ever")
	return err
}

// cells is memory of the host's as numbers.
func cells(m backends.Memory) []uint32 {
	return unsafe.Slice((*uint32)(hostmem.Pointer(m.Addr)), m.Bytes/4)
}

// write and read move numbers by the rig's stream and wait.
func (r *rig) write(m backends.Memory, first uint32) {
	r.Helper()
	for i := range n {
		cells(r.host)[i] = first + uint32(i)
	}
	require.NoError(r, r.finish(r.s, r.must(r.s.Copy(m.Addr, r.host.Addr, 4*n))))
}

func (r *rig) read(m backends.Memory) []uint32 {
	r.Helper()
	require.NoError(r, r.finish(r.s, r.must(r.s.Copy(r.host.Addr+4*n, m.Addr, 4*n))))
	return append([]uint32(nil), cells(r.host)[n:]...)
}
