package isa

import (
	"maps"
	"slices"
	"testing"
)

// CheckVerified lets the tests outside the package check graphs.
var CheckVerified = checkVerified

// RuleTestPrograms returns the programs of the tests of rules that are small.
func RuleTestPrograms(t testing.TB) (list []*Program) {
	for _, r := range ruleTests {
		if r.rule == "inline" {
			continue // small, but as large as can be once inlined
		}
		for _, set := range []map[string]source{r.bad, r.good} {
			for _, name := range slices.Sorted(maps.Keys(set)) {
				s := set[name]
				if len(s.text) > 2000 {
					continue
				}
				p := s.program(t)
				values := 0
				for _, d := range p.Data {
					values += len(d.Values)
				}
				if len(p.Insts) < 100 && len(p.Labels) < 100 && len(p.Data) < 100 && values < 100 {
					list = append(list, p)
				}
			}
		}
	}
	return list
}
