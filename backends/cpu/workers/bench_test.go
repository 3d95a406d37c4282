package workers

import (
	"fmt"
	"runtime"
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
