package workers

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// busy is work of equal parts that take some time each, on a processor of their own.
type busy struct{ each time.Duration }

func (b busy) Run(j *Job, at Seat) {
	for _, ok := j.Next(&at); ok; _, ok = j.Next(&at) {
		for start := time.Now(); time.Since(start) < b.each; {
		}
	}
}

// BenchmarkLaunch tells what it costs to share work: the nanoseconds beyond those
// that its longest part takes. Launches come one after the other (hot), or after a
// pause in which workers fall asleep (cold), whose parts are longer than a wake takes.
func BenchmarkLaunch(b *testing.B) {
	for threads := 2; threads <= runtime.NumCPU(); threads *= 2 {
		for _, pause := range []time.Duration{0, time.Millisecond} {
			name := "hot"
			if pause > 0 {
				name = "cold"
			}
			b.Run(fmt.Sprintf("%s/%d", name, threads), func(b *testing.B) {
				p := New(threads)
				defer p.Close()
				work := busy{20*time.Microsecond + pause/4}
				best, total := time.Hour, time.Duration(0)
				for range b.N {
					time.Sleep(pause)
					start := time.Now()
					p.Run(threads, work)
					took := time.Since(start) - work.each
					total += took
					best = min(best, took)
				}
				b.ReportMetric(float64(best), "ns-best")
				b.ReportMetric(float64(total)/float64(b.N), "ns-beyond")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// rendezvous is work that is done when all threads are there.
type rendezvous struct {
	threads int64
	here    atomic.Int64
}

func (m *rendezvous) Run(j *Job, at Seat) {
	for _, ok := j.Next(&at); ok; _, ok = j.Next(&at) {
		for m.here.Add(1); m.here.Load() < m.threads; {
			Pause()
		}
	}
}

// BenchmarkWake tells how long it takes until workers that sleep are all at work.
func BenchmarkWake(b *testing.B) {
	for threads := 2; threads <= runtime.NumCPU(); threads *= 2 {
		b.Run(fmt.Sprint(threads), func(b *testing.B) {
			p := New(threads)
			defer p.Close()
			took := make([]time.Duration, b.N)
			for i := range b.N {
				time.Sleep(2 * time.Millisecond)
				m := &rendezvous{threads: int64(threads)}
				start := time.Now()
				p.Run(threads, m)
				took[i] = time.Since(start)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[0]), "ns-best")
			b.ReportMetric(float64(took[b.N/2]), "ns-median")
			b.ReportMetric(0, "ns/op")
		})
	}
}
