package gemm

import (
	"fmt"
	"sync/atomic"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
)

// Chains multiplies matrices as a loop of FMAs does that begins with +0.0: each element of the result is one chain along
// all of k. Up to a chunk of k that is the written order of the library's products as well; beyond it a chunk begins
// with the sums of the one before.
type Chains struct {
	lib   *library
	t     number
	of    element
	spare atomic.Pointer[launch] // for the next launch
}

// Matrices are those that Chains multiplies: C = A · B, of M × K and K × N elements, with the bytes from row to row and
// from column to column, none of them negative. C's columns lie side by side, apart from A and B.
type Matrices struct {
	M, N, K                      int64
	A, B, C                      uintptr
	ARow, ACol, BRow, BCol, CRow int64
}

// NewChains returns what multiplies floats of a type; *backends.Unsupported says why there is none.
func NewChains(t isa.Type, l jit.Level) (*Chains, error) {
	c := &Chains{lib: narrow()}
	if l&^jit.Few == jit.AVX512 {
		c.lib = wide()
	}
	if c.t, c.of = numberOf(t); t != isa.F32 && t != isa.F64 {
		return nil, &backends.Unsupported{Backend: "gemm", What: fmt.Sprintf("a chain of %v", t), Why: "it is of f32 and f64 alone"}
	}
	return c, nil
}

// Run multiplies on the caller's thread and, if there is enough to do, on workers. The error is ErrCancelled, if
// record says so, or nil, or says what the machine lacks.
func (c *Chains) Run(x *Matrices, record *backends.Record, pool *workers.Pool) error {
	if x.M == 0 || x.N == 0 {
		return nil
	}
	p := product{lib: c.lib, t: c.t, in: c.of, out: c.of, m: x.M, n: x.N, k: x.K, a: x.A, b: x.B, c: x.C,
		ars: x.ARow, acs: x.ACol, brs: x.BRow, bcs: x.BCol, crs: x.CRow, ccs: c.of.size, chained: true}
	if p.chains() { // sums wait in C, by rows
		p.plain()
		p.lib = p.lib.around(max(p.n*p.in.size, leastBytes))
	} else {
		p = p.orient()
	}
	r := c.spare.Swap(nil)
	if r == nil {
		r = &launch{}
	}
	r.first, r.record, r.batches, r.parts, r.part, r.cPart, r.later, r.err = p, record, 1, 1, max(x.K, 1), 0, 0, nil
	r.stopped.Store(false)
	defer func() {
		r.record = nil
		c.spare.Store(r)
	}()
	return r.work(pool)
}
