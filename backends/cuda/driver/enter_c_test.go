//go:build cgo && linux

package driver

import (
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/stretchr/testify/require"
)

// entered is an Entry as C has it: in memory that does not move, aligned to 64.
type entered struct {
	code    uintptr
	frame   []byte
	at      int
	tickets *Tickets
}

func newEntered(t *testing.T, d *told, begin uint64, change func(*Submission)) *entered {
	_, find := d.functions()
	e, err := newEntries(find)
	require.NoError(t, err)
	api := &API{entries: e}
	x := &entered{tickets: &Tickets{Passed: begin}}
	x.tickets.Begin()
	s := api.NewSubmission()
	defer api.FreeSubmission(s)
	block := api.Parameter(s, 16)
	copy(block, "another's block.")
	s.Context, s.Stream, s.Func, s.Grid, s.Block, s.Shared = 7, 8, 9, [3]uint32{1, 2, 3}, [3]uint32{4, 5, 6}, 10
	if change != nil {
		change(s)
	}
	code, frame, at := api.Entry(s, block, x.tickets)
	memory := make([]byte, len(frame)+64)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(memory)))) & 63
	x.code, x.frame, x.at = code, memory[skip:skip+len(frame)], at
	copy(x.frame, frame)
	copy(x.frame[at:], "the launch block") // as it is aimed at each time
	return x
}

// enter reports whether the launch was queued.
func (x *entered) enter() bool {
	purego.SyscallN(x.code, uintptr(unsafe.Pointer(unsafe.SliceData(x.frame))))
	return binary.NativeEndian.Uint32(x.frame) == 0
}

// An entry makes the calls that a submission makes, with the block that is in it, and
// takes a ticket; or none, and nothing is queued that Go would queue again.
func TestEntries(t *testing.T) {
	const launch = "launch 9 1 2 3, 4 5 6, 10, 8, 746865206c61756e636820626c6f636b"
	for _, c := range []struct {
		name   string
		set    told
		change func(*Submission)
		done   bool
		log    []string
	}{
		{"context current", told{current: 7}, nil, true, []string{"current", launch}},
		{"none current", told{}, nil, true, []string{"current", "push 7", launch, "pop"}},
		{"pop fails", told{pop: 4}, nil, true, []string{"current", "push 7", launch, "pop"}},
		{"push fails", told{push: 201}, nil, false, []string{"current", "push 7"}},
		{"launch fails", told{current: 7, launch: 719}, nil, false, []string{"current", launch}},
		{"others' stream", told{current: 7}, func(s *Submission) { s.Others = 1 }, true, []string{"current", "capturing 8", launch}},
		{"captured", told{current: 7, status: 1}, func(s *Submission) { s.Others = 1 }, false, []string{"current", "capturing 8"}},
		{"captured elsewhere", told{current: 7, capturing: 906}, func(s *Submission) { s.Others = 1 }, false, []string{"current", "capturing 8"}},
		{"capture unknown", told{current: 7, capturing: 700}, func(s *Submission) { s.Others = 1 }, false, []string{"current", "capturing 8"}},
		{"by a graph", told{current: 7}, func(s *Submission) { s.Exec, s.Node = 12, 13 }, true,
			[]string{"current", "set 12 13, 9 [1 2 3] [4 5 6], 10, 746865206c61756e636820626c6f636b true", "graph 12 8"}},
		{"the graph's launch fails", told{current: 7, graph: 719}, func(s *Submission) { s.Exec, s.Node = 12, 13 }, false,
			[]string{"current", "set 12 13, 9 [1 2 3] [4 5 6], 10, 746865206c61756e636820626c6f636b true", "graph 12 8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &told{}
			x := newEntered(t, d, 40, c.change)
			*d = c.set
			for i := range uint64(3) {
				d.log = nil
				require.Equal(t, c.done, x.enter())
				require.Equal(t, c.log, d.log)
				given := uint64(40)
				if c.done {
					given += i + 1
				}
				require.Equal(t, given, x.tickets.Last)
			}
		})
	}
}

// Entries have tickets written now and then, and are refused while too many are under
// way, whoever says what has passed.
func TestEntriesUnderWay(t *testing.T) {
	d := &told{}
	x := newEntered(t, d, 1000, nil)
	*d = told{current: 7}
	most := 0
	for x.enter() {
		most++
	}
	require.Less(t, most, 500)
	require.Greater(t, most, 100)
	require.EqualValues(t, 1000+most, x.tickets.Last)
	writes := 0
	for _, line := range d.log {
		if line[0] == 'w' {
			writes++
		}
	}
	require.GreaterOrEqual(t, writes, 3)
	require.Less(t, writes, most/20)
	refused := len(d.log)
	require.False(t, x.enter())
	require.Len(t, d.log, refused, "nothing was asked of the driver")

	x.tickets.Passed = x.tickets.Last - uint64(most) + 3
	for i := range 4 {
		require.Equal(t, i < 3, x.enter(), i)
	}
	x.tickets.Entered = x.tickets.Last - 1
	require.True(t, x.enter())
	x.tickets.Begin()
	require.EqualValues(t, x.tickets.Entered, x.tickets.Last, "as the next stream begins")
}

// Where the ticket can't be written the launch is queued all the same, and the next has it written.
func TestEntriesWhoseTicketIsNotWritten(t *testing.T) {
	d := &told{}
	x := newEntered(t, d, 0, nil)
	*d = told{current: 7, write: 719}
	for range 70 {
		require.True(t, x.enter())
	}
	require.EqualValues(t, 70, x.tickets.Last)
	require.Contains(t, d.log[len(d.log)-1], "write 8 ")
	require.Contains(t, d.log[len(d.log)-4], "write 8 ")
}
