package core

import (
	"encoding/binary"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// TestStrayAccessesAreDescribed: an error of a stray access tells the first lane
// that made it, what it asked for and what there is, whatever the path that the
// access takes in a backend.
func TestStrayAccessesAreDescribed(t *testing.T) {
	const head = "program stray\nslot x f32\nslot y f32\ndata t u16 { 1, 2, 3 }\nshared 64\nldg.f32 v, x[index]\nsreg g, global_lane\n"
	for name, c := range map[string]struct{ code, want string }{
		"one byte for all, read":    {"ldg.f32 v, x[4000]", "lane 0 at line 8 (ldg.f32 v, x[4000]): 4 bytes at byte 4000 of slot x, which has 2400; the launch ran"},
		"one byte for all, written": {"stg.f32 v, x[2398]", "lane 0 at line 8 (stg.f32 v, x[2398]): 4 bytes at byte 2398 of slot x, which has 2400;"},
		"by lane":                   {"mul.u64 o, g, 8\nldg.f32 v, y[o+4]", "lane 300 at line 9 (ldg.f32 v, y[o+4]): 4 bytes at byte 2404 of slot y, which has 2400;"},
		"by lane, written":          {"mul.u64 o, g, 16\nstg.f32 v, x[o]", "lane 150 at line 9 (stg.f32 v, x[o]): 4 bytes at byte 2400 of slot x, which has 2400;"},
		"below 0":                   {"mul.u64 o, g, 4\nsub.u64 o, 0, o\nadd.u64 o, o, 1000\nldg.f32 v, y[o]", "lane 251 at line 11 (ldg.f32 v, y[o]): 4 bytes at byte -4 of slot y, which has 2400;"},
		"in some lanes":             {"rem.u64 o, g, 7\nset.eq.u64 p, o, 3\nmul.u64 o, g, 1000\nbra e, p\nset.lt.u64 p, o, 20000\nbra e, p\nstg.f32 v, y[o]\ne:", "lane 20 at line 14 (stg.f32 v, y[o]): 4 bytes at byte 20000 of slot y, which has 2400;"},
		"without order":             {"mul.u64 o, g, 7919\nrem.u64 o, o, 3001\nldg.f32 v, x[o]", "lane 8 at line 10 (ldg.f32 v, x[o]): 4 bytes at byte 331 of slot x"},
		"shared":                    {"rem.u64 o, g, 256\nmul.u64 o, o, 2\nsts.f32 v, shared[o]", "lane 31 at line 10 (sts.f32 v, shared[o]): 4 bytes at byte 62 of shared memory, which has 64;"},
		"a table":                   {"ldc.u16 w, t[g]", "lane 3 at line 8 (ldc.u16 w, t[g]): element 3 of table t, which has 3;"},
		"a table, one for all":      {"mov.u32 i, 9\nldc.u16 w, t[i]", "lane 0 at line 9 (ldc.u16 w, t[i]): element 9 of table t, which has 3;"},
		"through a register":        {"mov.u32 h, 1\nldg.f32 v, @h[5000]", "lane 0 at line 9 (ldg.f32 v, @h[5000]): 4 bytes at byte 5000 of slot y, which has 2400;"},
		"through several":           {"rem.u64 h, g, 2\nmul.u64 o, g, 100\nldg.f32 v, @h[o]", "lane 24 at line 10 (ldg.f32 v, @h[o]): 4 bytes at byte 2400 of slot x, which has 2400;"},
		"an element":                {"ldg.f32 v, y[flat g + 1]", "lane 599 at line 8 (ldg.f32 v, y[flat g + 1]): element 600 of slot y, which has 600;"},
		"an element below 0":        {"cvt.i64.u64 i, g\nsub.i64 i, 100, i\nstg.f32 v, y[flat i]", "lane 101 at line 10 (stg.f32 v, y[flat i]): element -1 of slot y, which has 600, counted from 0 on, never from the end;"},
		"a huge element":            {"sub.u64 i, 0, 1\nldg.f32 v, y[flat i]", "lane 0 at line 9 (ldg.f32 v, y[flat i]): element 576460752303423488, or one beyond it, of slot y, which has 600;"},
		"an atomic, an element":     {"mul.u64 o, g, 3\natom_add.f32 k, y[flat o], v", "lane 200 at line 9 (atom_add.f32 k, y[flat o], v): element 600 of slot y, which has 600;"},
		"elements taken for bytes":  {"add.u64 i, g, 1800\nldg.f32 v, y[i]", "lane 597 at line 9 (ldg.f32 v, y[i]): 4 bytes at byte 2397 of slot y, which has 2400; addresses count bytes, [flat …] counts elements;"},
		"an atomic":                 {"mul.u64 o, g, 12\natom_add.f32 k, y[o], v", "lane 200 at line 9 (atom_add.f32 k, y[o], v): 4 bytes at byte 2400 of slot y"},
	} {
		if name == "without order" { // the first of them, as Go computes it
			for g := 0; ; g++ {
				if o := g * 7919 % 3001; o > 2396 {
					c.want = "lane " + strconv.Itoa(g) + " at line 10 (ldg.f32 v, x[o]): 4 bytes at byte " + strconv.Itoa(o) + " of slot x, which has 2400;"
					break
				}
			}
		}
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, ex *Executor) {
				p := assemble(t, head+c.code+"\nstg.f32 v, x[index]\nexit")
				x, y := floats(t, ex, make([]float32, 600)...), floats(t, ex, make([]float32, 600)...)
				err := wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{x, y}}))
				if err == nil {
					err = wait(ex.Synchronize())
				}
				place, _, _ := strings.Cut(c.want, "): ")
				require.ErrorContains(t, err, place+"): ")
				// Machine code does not tell what was asked for, but what there is.
				if silent := regexp.MustCompile(`\): (slot|table|shared memory)( \w+)? has \d+ (bytes|elements);`); ex.device.Name != "cpu" || !silent.MatchString(err.Error()) {
					require.ErrorContains(t, err, c.want)
				}
				require.Equal(t, Faulted, CodeOf(err))
				require.Equal(t, 1, strings.Count(err.Error(), "\n")+1)
			})
		})
	}
}

// TestLanesThatDoNotRunDoNotFault: what would be stray in a lane that a branch
// leads past, that has left a loop or has exited, is no fault, and changes no
// memory and no register there.
func TestLanesThatDoNotRunDoNotFault(t *testing.T) {
	const head = "program masked\nslot x u32\nslot y u32\ndata t u32 { 5, 6, 7 }\nshared 12\nldg.u32 v, x[index]\nsreg g, global_lane\nmul.u64 o, g, 4\n" +
		"mov.u32 w, 99\nmov.u32 h, 1\n"
	const n = 700
	for name, c := range map[string]struct {
		access string
		want   func(lane uint32) uint32 // of lanes that run, which leave it in w
	}{
		"a table":            {"ldc.u32 w, t[g]", func(lane uint32) uint32 { return 5 + lane }},
		"a table by 32 bits": {"cvt.u32.u64 i, g\nldc.u32 w, t[i]", func(lane uint32) uint32 { return 5 + lane }},
		"a load":             {"ldg.u32 w, y[o]", func(lane uint32) uint32 { return 10 * lane }},
		"a load of all":      {"ldg.u32 w, y[8]", func(uint32) uint32 { return 20 }},
		"a store":            {"stg.u32 77, y[o]\nmov.u32 w, 1", func(uint32) uint32 { return 1 }},
		"through a register": {"ldg.u32 w, @h[o]", func(lane uint32) uint32 { return 10 * lane }},
		"shared memory":      {"sts.u32 v, shared[o]\nlds.u32 w, shared[o]", func(lane uint32) uint32 { return lane }},
		"an atomic":          {"atom_add.u32 w, y[o], 1", func(lane uint32) uint32 { return 10 * lane }},
		"a division":         {"sub.u32 d, 3, v\ndiv.u32 w, 6, d", func(lane uint32) uint32 { return 6 / (3 - lane) }},
		"division of all":    {"mov.u32 d, 3\ndiv.u32 w, 6, d", func(uint32) uint32 { return 2 }},
	} {
		for how, around := range map[string][2]string{
			"branched past": {"set.ge.u32 p, v, 3\nbra e, p\n", "\ne:\nstg.u32 w, x[index]\n"},
			"left a loop":   {"mov.u32 k, 0\nagain:\nset.ge.u32 p, v, 3\nbra e, p\n", "\nadd.u32 k, k, 1\nset.lt.u32 q, k, 1\nbra again, q\ne:\nstg.u32 w, x[index]\n"},
			"exited":        {"set.ge.u32 p, v, 3\nstg.u32 w, x[index]\nbra e, p\n", "\nstg.u32 w, x[index]\ne:\n"},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				onEach(t, func(t *testing.T, ex *Executor) {
					p := assemble(t, head+around[0]+c.access+around[1]+"exit")
					lanes, tens := make([]uint32, n), []uint32{0, 10, 20}
					for i := range lanes {
						lanes[i] = uint32(i)
					}
					x, y := ofWords(t, ex, lanes...), ofWords(t, ex, tens...)
					require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{x, y}, Shape: []int64{n}})))
					require.NoError(t, wait(ex.Synchronize()))
					for i, got := range words(t, x) {
						want := uint32(99)
						if i < 3 {
							want = c.want(uint32(i))
						}
						require.Equal(t, want, got, "lane %d", i)
					}
				})
			})
		}
	}
}

// ofWords makes a buffer of u32 values.
func ofWords(t *testing.T, ex *Executor, values ...uint32) *Buffer {
	t.Helper()
	b, err := ex.Allocate(int64(len(values)), isa.U32, true)
	require.NoError(t, err)
	data := hostBytes(4 * b.Len())
	for i, v := range values {
		binary.LittleEndian.PutUint32(data[4*i:], v)
	}
	require.NoError(t, wait(b.Write(addressOf(data), 0, int64(len(data)))))
	runtime.KeepAlive(data)
	return b
}
