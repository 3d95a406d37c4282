//go:build cgo && linux

package driver

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// told is a driver that notes what it is asked, and answers as it is told.
type told struct {
	log                                         []string
	current                                     Context
	noCurrent                                   bool
	push, capturing, launch, write, pop, status int32
	set, graph                                  int32
}

// table is t by Go's functions and by C's.
func (t *told) functions() (*API, func(symbol string) (uintptr, error)) {
	say := func(format string, args ...any) { t.log = append(t.log, fmt.Sprintf(format, args...)) }
	current := func(c *Context) int32 {
		say("current")
		if t.noCurrent {
			return 3
		}
		*c = t.current
		return 0
	}
	push := func(c Context) int32 { say("push %d", c); return t.push }
	pop := func(*Context) int32 { say("pop"); return t.pop }
	capturing := func(s Stream, status *int32) int32 {
		say("capturing %d", s)
		*status = t.status
		return t.capturing
	}
	launch := func(f Func, gx, gy, gz, bx, by, bz, shared uint32, s Stream, params *unsafe.Pointer) int32 {
		say("launch %d %d %d %d, %d %d %d, %d, %d, %x", f, gx, gy, gz, bx, by, bz, shared, s, unsafe.Slice((*byte)(*params), 16))
		return t.launch
	}
	launchEx := func(c *LaunchConfig, f Func, params *unsafe.Pointer) int32 {
		say("dependent %+v %d, %d %v %d, %d %v, %x", c.Attributes, c.Count, f, c.Grid, c.Block, c.Shared, c.Stream, unsafe.Slice((*byte)(*params), 16))
		return t.launch
	}
	set := func(x Exec, n Node, k *KernelNode) int32 {
		say("set %d %d, %d %v %v, %d, %x %t", x, n, k.Func, k.Grid, k.Block, k.Shared, unsafe.Slice((*byte)(*k.parameters), 16), k.extra == nil)
		return t.set
	}
	graph := func(x Exec, s Stream) int32 { say("graph %d %d", x, s); return t.graph }
	write := func(s Stream, at Pointer, v uint64, flags uint32) int32 {
		say("write %d %d %d %d", s, at, v, flags)
		return t.write
	}
	a := &API{
		CtxCurrent:        func(c *Context) Result { return Result(current(c)) },
		CtxPush:           func(c Context) Result { return Result(push(c)) },
		CtxPop:            func(c *Context) Result { return Result(pop(c)) },
		StreamIsCapturing: func(s Stream, status *int32) Result { return Result(capturing(s, status)) },
		Launch: func(f Func, gx, gy, gz, bx, by, bz, shared uint32, s Stream, params, _ *unsafe.Pointer) Result {
			return Result(launch(f, gx, gy, gz, bx, by, bz, shared, s, params))
		},
		LaunchEx:         func(c *LaunchConfig, f Func, params, _ *unsafe.Pointer) Result { return Result(launchEx(c, f, params)) },
		StreamWriteValue: func(s Stream, at Pointer, v uint64, flags uint32) Result { return Result(write(s, at, v, flags)) },
		ExecSetKernel:    func(x Exec, n Node, k *KernelNode) Result { return Result(set(x, n, k)) },
		GraphLaunch:      func(x Exec, s Stream) Result { return Result(graph(x, s)) },
	}
	// Callbacks return words, of which C looks at the low half.
	word := func(r int32) uintptr { return uintptr(uint32(r)) }
	c := map[string]uintptr{
		"cuCtxGetCurrent":     purego.NewCallback(func(c *Context) uintptr { return word(current(c)) }),
		"cuCtxPushCurrent_v2": purego.NewCallback(func(c Context) uintptr { return word(push(c)) }),
		"cuCtxPopCurrent_v2":  purego.NewCallback(func(c *Context) uintptr { return word(pop(c)) }),
		"cuStreamIsCapturing": purego.NewCallback(func(s Stream, status *int32) uintptr { return word(capturing(s, status)) }),
		"cuLaunchKernel": purego.NewCallback(func(f Func, gx, gy, gz, bx, by, bz, shared uint32, s Stream, params, _ *unsafe.Pointer) uintptr {
			return word(launch(f, gx, gy, gz, bx, by, bz, shared, s, params))
		}),
		"cuLaunchKernelEx": purego.NewCallback(func(c *LaunchConfig, f Func, params, _ *unsafe.Pointer) uintptr {
			return word(launchEx(c, f, params))
		}),
		"cuGraphExecKernelNodeSetParams": purego.NewCallback(func(x Exec, n Node, k *KernelNode) uintptr { return word(set(x, n, k)) }),
		"cuGraphLaunch":                  purego.NewCallback(func(x Exec, s Stream) uintptr { return word(graph(x, s)) }),
		"cuStreamWriteValue64_v2":        purego.NewCallback(func(s Stream, at Pointer, v uint64, flags uint32) uintptr { return word(write(s, at, v, flags)) }),
	}
	return a, func(symbol string) (uintptr, error) { return c[symbol], nil }
}

// A submission makes the same calls by C as by Go, whatever the driver says, and
// leaves a context behind that it found.
func TestSubmissionsByCAndByGo(t *testing.T) {
	d := &told{}
	a, find := d.functions()
	e, err := newEntries(find)
	require.NoError(t, err)
	for _, c := range []struct {
		name            string
		set             told
		others, word    bool
		exec, dependent bool
		failed          Failed
		captured        bool
		calls           int
	}{
		{"context current", told{current: 7}, false, false, false, false, FailedNone, false, 2},
		{"none current", told{}, false, true, false, false, FailedNone, false, 5},
		{"not told which", told{noCurrent: true}, false, false, false, false, FailedNone, false, 4},
		{"others' stream", told{current: 7}, true, true, false, false, FailedNone, false, 4},
		{"push fails", told{push: 201}, true, true, false, false, FailedPush, false, 2},
		{"captured", told{status: 1}, true, true, false, false, FailedNone, true, 4},
		{"captured elsewhere", told{current: 7, capturing: 906}, true, true, false, false, FailedNone, true, 2},
		{"capture unknown", told{capturing: 700}, true, true, false, false, FailedCapturing, false, 4},
		{"launch fails", told{launch: 1, pop: 5}, false, true, false, false, FailedLaunch, false, 4},
		{"write fails", told{write: 719}, false, true, false, false, FailedWrite, false, 5},
		{"pop fails", told{pop: 4}, false, true, false, false, FailedPop, false, 5},
		{"by a graph", told{current: 7}, true, true, true, false, FailedNone, false, 5},
		{"by a graph, captured", told{current: 7, status: 1}, true, true, true, false, FailedNone, true, 2},
		{"a graph does not take it", told{current: 7, set: 1}, false, true, true, false, FailedNone, false, 4},
		{"neither does a launch", told{set: 1, launch: 2}, false, true, true, false, FailedLaunch, false, 5},
		{"the graph's launch fails", told{graph: 719}, false, true, true, false, FailedGraph, false, 5},
		{"dependent", told{current: 7}, true, true, false, true, FailedNone, false, 4},
		{"dependent, captured", told{current: 7, status: 1}, true, true, false, true, FailedNone, true, 2},
		{"a dependent one fails", told{launch: 1}, false, true, false, true, FailedLaunch, false, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			var logs [2][]string
			var results [2]Result
			for i, api := range []*API{a, {entries: e}} {
				*d = c.set
				s := api.NewSubmission()
				copy(api.Parameter(s, 16), "the launch block")
				s.Context, s.Stream, s.Func, s.Grid, s.Block, s.Shared = 7, 8, 9, [3]uint32{1, 2, 3}, [3]uint32{4, 5, 6}, 10
				if c.exec {
					s.Exec, s.Node = 12, 13
				}
				if c.dependent {
					s.Dependent = 1
				}
				if c.others {
					s.Others = 1
				}
				if c.word {
					s.Word, s.Value = 11, 1<<40
				}
				results[i] = api.Submit(s)
				require.Equal(t, c.failed, s.Failed)
				require.Equal(t, c.captured, s.Captured != 0)
				require.Equal(t, c.failed != FailedNone, results[i] != Success)
				logs[i] = d.log
				require.Len(t, d.log, c.calls)
				api.FreeSubmission(s)
			}
			require.Equal(t, logs[0], logs[1])
			require.Equal(t, results[0], results[1])
		})
	}
}

// A place for parameters grows, and keeps its size else.
func TestParametersGrow(t *testing.T) {
	_, find := (&told{}).functions()
	e, err := newEntries(find)
	require.NoError(t, err)
	for _, api := range []*API{{}, {entries: e}} {
		s := api.NewSubmission()
		for _, n := range []int{8, 4000, 16, 5000} {
			p := api.Parameter(s, n)
			require.Len(t, p, n)
			p[n-1] = 1
			require.Equal(t, unsafe.Pointer(&p[0]), *s.Params())
		}
		api.FreeSubmission(s)
	}
	(&API{entries: e}).FreeSubmission(nil)
}
