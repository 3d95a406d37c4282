// Package conformance is the one test suite that every backend passes. A
// backend joins with a test of a few lines that calls Run.
//
// It has four parts: the corpus, programs with expected results from outside
// our evaluators; edges, cases whose results follow from the definition; random
// ordered programs, some of them of little but numbers that step along the lanes,
// compared bit for bit with interp; and the safety and state rules (stray accesses,
// fuel, cancellation, timings, the caller's floating-point modes).
// Guards around every array show writes that went astray.
package conformance

import (
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// Run runs the suite on device 0 of the backend that open gives.
func Run(t *testing.T, open func() backends.Backend) {
	t.Run("corpus", func(t *testing.T) { runCorpus(t, open()) })
	t.Run("edges", func(t *testing.T) { runEdges(t, open()) })
	t.Run("random", func(t *testing.T) { runRandom(t, open()) })
	t.Run("affine", func(t *testing.T) { runAffine(t, open()) })
	t.Run("cancellation", func(t *testing.T) { runCancellation(t, open()) })
	t.Run("timings", func(t *testing.T) { runTimings(t, open()) })
	t.Run("caller states", func(t *testing.T) { runCallerStates(t, open()) })
}

func runCorpus(t *testing.T, b backends.Backend) {
	cases, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, b)
	defer r.close()
	for i, c := range cases {
		if c.Grid != 0 {
			if err := r.explicit(c); err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
			continue
		}
		// Every shape in some layout and every layout in some shape; which ones
		// meet changes from case to case.
		all := append(shapes, []int64{int64(c.elements())})
		for j := range len(all) + len(layouts) {
			if brief.Skips(i+j, 11) {
				continue
			}
			if err := r.elementwise(c, all[j%len(all)], (i+j/len(all)+j)%len(layouts), blocks[(i+j)%len(blocks)]); err != nil {
				t.Errorf("%s: %v", c.Name, err)
				break
			}
		}
	}
	t.Logf("%s: %d runs of the corpus", b.Name(), len(cases))
}
