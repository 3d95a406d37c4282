package backends_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/work"
	"github.com/hologram-project/hologram/kernels"
)

// TestKeysOfKernels changes, one by one, what a kernel is made of: each has another key,
// but for what the device says that it does not heed.
func TestKeysOfKernels(t *testing.T) {
	variants := []backends.Variant{{}}
	fields := reflect.TypeFor[backends.Variant]().NumField()
	for i := range fields {
		for _, v := range variants {
			reflect.ValueOf(&v).Elem().Field(i).SetBool(true)
			variants = append(variants, v)
		}
	}
	all := variants[len(variants)-1]
	base := backends.Info{Codegen: "a 1", Variants: all}
	unit := &backends.Unit{Hash: [32]byte{1}}
	seen := map[backends.Key]string{}
	add := func(name string, u *backends.Unit, v backends.Variant, info backends.Info) {
		key := backends.KeyOf(u, v, &info)
		require.Empty(t, seen[key], name)
		seen[key] = name
	}
	for _, v := range variants {
		add(fmt.Sprintf("%+v", v), unit, v, base)
	}
	for i := range 32 {
		other := *unit
		other.Hash[i]++
		add(fmt.Sprint("hash ", i), &other, backends.Variant{}, base)
	}
	for _, m := range []kernels.Meeting{{Blocks: 8}, {Blocks: 4}, {Blocks: 8, Told: 4}} {
		other := *unit
		other.Meeting = m
		add(fmt.Sprintf("meeting %+v", m), &other, backends.Variant{}, base)
	}
	plan, err := kernels.Gemm.Plan(isa.F32, []int64{100, 100, 100, 0, 0})
	require.NoError(t, err)
	for _, v := range []*isa.Verified{nil, plan.Steps[0].Program} { // a user's of the same text, and a product's
		other := *unit
		other.Hash, other.Source = [32]byte{99}, v
		add(fmt.Sprintf("source %p", v), &other, backends.Variant{}, base)
	}
	for _, text := range []string{"", "a 2", "b 1", "a 1 "} {
		info := base
		info.Codegen = text
		add(fmt.Sprintf("codegen %q", text), unit, backends.Variant{}, info)
	}
	source := base
	source.RunsSource = true
	add("source", unit, backends.Variant{}, source)
	for i := range fields {
		deaf, without := base, all
		reflect.ValueOf(&deaf.Variants).Elem().Field(i).SetBool(false)
		reflect.ValueOf(&without).Elem().Field(i).SetBool(false)
		require.Equal(t, backends.KeyOf(unit, without, &base), backends.KeyOf(unit, all, &deaf))
	}
	metered, elsewhere := *unit, base
	metered.Work = work.New(nil)
	elsewhere.Name, elsewhere.MemoryBytes, elsewhere.DLPackID = "another", 5, 3
	require.Equal(t, backends.KeyOf(unit, all, &base), backends.KeyOf(&metered, all, &elsewhere))
}

// TestRecords: what is noted of a launch is what it tells.
func TestRecords(t *testing.T) {
	fault := &backends.ProgramFault{Kind: isa.FaultAccess, Site: 5, Lane: 1 << 40, Asked: backends.Asked{Known: 1, Slot: 2, At: -3}}
	for want, note := range map[error]error{nil: nil, fault: fault, backends.ErrCancelled: backends.ErrCancelled} {
		r := &backends.Record{Asked: backends.Asked{Known: 1, Slot: 9, At: 9}}
		r.Note(note)
		require.Equal(t, want, r.Outcome())
	}
	r := new(backends.Record)
	r.Note(errors.New("of no launch"))
	require.NoError(t, r.Outcome())
	r.Note(fault)
	r.Note(&backends.ProgramFault{Kind: isa.FaultDivide, Site: 1})
	require.Equal(t, &backends.ProgramFault{Kind: isa.FaultDivide, Site: 1}, r.Outcome(), "nothing is left of the one before")
	r.Note(backends.ErrCancelled)
	require.Equal(t, backends.ErrCancelled, r.Outcome(), "whatever else it did")
	require.False(t, r.Stopped())
	r.Stop()
	require.True(t, r.Stopped())
	var nobody *backends.Record
	nobody.Note(fault)
	require.False(t, nobody.Stopped())
}
