package conformance

import (
	"fmt"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// onceParts is in how many subtests Once has its programs.
const onceParts = 8

// Once runs each program of the corpus a single time, and so every row in every
// type: as much as there is time for under tools that make programs a hundred
// times slower. It has subtests "0" to "7", which processes may share.
func Once(t *testing.T, open func() backends.Backend) {
	all, err := Corpus()
	if err != nil {
		t.Fatal(err)
	}
	cases := distinct(all)
	for part := range onceParts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			r := newRig(t, open())
			defer r.close()
			n := 0
			for i := part; i < len(cases); i += onceParts {
				c := cases[i]
				run := func() error { return r.explicit(c) }
				if c.Grid == 0 { // a last block that is not full, in each layout by turns
					run = func() error { return r.elementwise(c, []int64{3, 33}, i/onceParts%len(layouts), 64) }
				}
				if err := run(); err != nil {
					t.Errorf("%s: %v", c.Name, err)
				}
				n++
			}
			t.Logf("%s: %d programs of the corpus", r.info.Name, n)
		})
	}
}

// distinct is the first case of each program.
func distinct(cases []*Case) (first []*Case) {
	seen := map[string]bool{}
	for _, c := range cases {
		if key := string(isa.Encode(c.Program.Program)); !seen[key] {
			seen[key] = true
			first = append(first, c)
		}
	}
	return first
}
