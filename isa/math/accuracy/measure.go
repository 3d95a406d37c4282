package accuracy

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/hologram-project/hologram/isa"
)

// Result is what a measurement found.
type Result struct {
	Case
	Max  float64 // the largest error, in units in the last place
	X, Y uint64  // the arguments, as cells, where it occurs
	Got  uint64  // the result there
	N    uint64  // number of arguments
	All  bool    // whether these are all there are
}

// Arguments returns the arguments of the largest error as numbers.
func (r Result) Arguments() (x, y float64) { return toFloat(r.Type, r.X), toFloat(r.Type, r.Y) }

// ResultValue returns the result of the largest error as a number.
func (r Result) ResultValue() float64 { return toFloat(r.Type, r.Got) }

func (r *Result) merge(s Result) {
	if s.Max > r.Max {
		r.Max, r.X, r.Y, r.Got = s.Max, s.X, s.Y, s.Got
	}
	r.N += s.N
}

// chunk is how many arguments a worker takes at a time.
const chunk = 1 << 18

// Measure evaluates a case on n arguments, or on all if n is at least their
// number, and compares with the reference. A sample is the same in each run.
// progress, if not nil, is told how many arguments are done.
func Measure(c Case, n uint64, workers int, progress func(done uint64)) (Result, error) {
	full, canAll := c.Full()
	all := canAll && n >= full
	if all {
		n = full
	}
	total := Result{Case: c, All: all, Max: -1}
	var mu sync.Mutex
	var next uint64
	var failed error
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			m, err := newMeasurer(c)
			for err == nil {
				mu.Lock()
				from := next
				next += chunk
				mu.Unlock()
				if from >= n {
					return
				}
				var r Result
				count := int(min(chunk, n-from))
				if all {
					r = m.consecutive(from, count)
				} else {
					r = m.sample(from/chunk, count)
				}
				mu.Lock()
				total.merge(r)
				if progress != nil {
					progress(total.N)
				}
				mu.Unlock()
			}
			mu.Lock()
			failed = err
			mu.Unlock()
		})
	}
	wg.Wait()
	return total, failed
}

// measurer measures one case on one goroutine.
type measurer interface {
	// consecutive measures on the count cells from a first one on.
	consecutive(first uint64, count int) Result
	// sample measures on count arguments, seed saying which.
	sample(seed uint64, count int) Result
}

func newMeasurer(c Case) (measurer, error) {
	e, err := NewEvaluator(c.Op, c.Type, false)
	switch c.Type.Size() {
	case 2:
		return &measurerOf[uint16]{c: c, e: e, compare: compare64(c, cells[uint16](c.Type))}, err
	case 4:
		return &measurerOf[uint32]{c: c, e: e, compare: compare64(c, floats)}, err
	}
	return &measurerOf[uint64]{c: c, e: e, compare: compareDD(c)}, err
}

// compare sets errs to the errors of out as the function of x and y, all as
// cells.
type compare[T cell] func(errs []float64, out, x, y []T)

type cell interface{ uint16 | uint32 | uint64 }

type measurerOf[T cell] struct {
	c         Case
	e         *Evaluator
	compare   compare[T]
	x, y, out []T
	errs      []float64
}

func (m *measurerOf[T]) grow(n int) {
	if len(m.x) < n {
		m.x, m.y, m.out, m.errs = make([]T, n), make([]T, n), make([]T, n), make([]float64, n)
	}
}

func (m *measurerOf[T]) consecutive(first uint64, count int) Result {
	m.grow(count)
	for i := range count {
		m.x[i] = T(first + uint64(i))
	}
	return m.run(count)
}

func (m *measurerOf[T]) sample(seed uint64, count int) Result {
	m.grow(count)
	next := m.c.arguments(rand.New(rand.NewPCG(seed, 0x486f6c6f6772616d)))
	for i := range count {
		x, y := next()
		m.x[i], m.y[i] = T(x), T(y)
	}
	return m.run(count)
}

func (m *measurerOf[T]) run(count int) Result {
	Run(m.e, m.out[:count], m.x[:count], m.y[:count])
	errs := m.errs[:count]
	m.compare(errs, m.out[:count], m.x[:count], m.y[:count])
	worst := 0
	for i, e := range errs {
		if e > errs[worst] {
			worst = i
		}
	}
	return Result{Max: errs[worst], X: uint64(m.x[worst]), Y: uint64(m.y[worst]), Got: uint64(m.out[worst]), N: uint64(count)}
}

// limits are those of a float type: the exponents of the smallest and largest
// binade, and the number of stored mantissa bits.
type limits struct{ emin, emax, mantissa int }

func limitsOf(t isa.Type) limits {
	emax := 1<<(t.ExponentBits()-1) - 1
	return limits{1 - emax, emax, t.MantissaBits()}
}

// compare64 compares with a float64. widen turns cells into their values.
func compare64[T cell](c Case, widen func(v []float64, cells []T)) compare[T] {
	f, lim := reference64(c.Op), limitsOf(c.Type)
	end := math.Ldexp(1, lim.emax+1)
	var gs, rs, xs, ys [width]float64
	return func(errs []float64, out, x, y []T) {
		for len(x) > 0 {
			n := min(width, len(x))
			widen(gs[:], out[:n])
			widen(xs[:], x[:n])
			widen(ys[:], y[:n])
			f(rs[:n], xs[:n], ys[:n])
			for i, r := range rs[:n] {
				g := gs[i]
				if r != r || g != g {
					errs[i] = mustBe(r != r && g != g)
					continue
				}
				if r == 0 && (math.Float64bits(r)^math.Float64bits(g))>>63 != 0 {
					errs[i] = math.Inf(1)
					continue
				}
				g, r := min(max(g, -end), end), min(max(r, -end), end)
				e := int(math.Float64bits(r)>>52&0x7ff) - 1023
				e = min(max(e, lim.emin), lim.emax)
				perULP := math.Float64frombits(uint64(1023+lim.mantissa-e) << 52)
				errs[i] = math.Abs(g-r) * perULP
			}
			errs, out, x, y = errs[n:], out[n:], x[n:], y[n:]
		}
	}
}

func floats(v []float64, cells []uint32) {
	for i, c := range cells {
		v[i] = float64(math.Float32frombits(c))
	}
}

func cells[T cell](t isa.Type) func(v []float64, cells []T) {
	return func(v []float64, cells []T) {
		for i, c := range cells {
			v[i] = toFloat(t, uint64(c))
		}
	}
}

// compareDD compares with a double-double, for f64.
func compareDD(c Case) compare[uint64] {
	f, lim := referenceDD(c.Op), limitsOf(c.Type)
	one := func(got, x, y uint64) float64 {
		g, r := math.Float64frombits(got), f(math.Float64frombits(x), math.Float64frombits(y))
		if r.special || g != g {
			return mustBe(r.special && (g == r.v.hi && math.Signbit(g) == math.Signbit(r.v.hi) || g != g && r.v.hi != r.v.hi))
		}
		if r.k > lim.emax+1 { // the exact value is beyond the format
			if math.IsInf(g, 0) {
				return mustBe(math.Signbit(g) == math.Signbit(r.v.hi))
			}
			return math.Ldexp(2-math.Ldexp(math.Copysign(1, r.v.hi)*g, -lim.emax), lim.mantissa)
		}
		if math.IsInf(g, 0) {
			g = math.Copysign(math.Ldexp(1, lim.emax+1-r.k), g)
		} else {
			g = math.Ldexp(g, -r.k)
		}
		e := r.k - 1 // v in [1/2, 1)
		e = min(max(e, lim.emin), lim.emax)
		d := math.Abs(g - r.v.hi - r.v.lo)
		return math.Ldexp(d, min(r.k-e+lim.mantissa, 1000))
	}
	return func(errs []float64, out, x, y []uint64) {
		for i := range errs {
			errs[i] = one(out[i], x[i], y[i])
		}
	}
}

// mustBe returns the error of a result that has to be exact.
func mustBe(ok bool) float64 {
	if ok {
		return 0
	}
	return math.Inf(1)
}
