package workers

import (
	"testing"
	"time"
)

// busy is work of two halves that take some time each, on a processor of their own.
type busy struct{ each time.Duration }

func (b busy) Run(j *Job, at Seat) {
	for _, ok := j.Next(&at); ok; _, ok = j.Next(&at) {
		for start := time.Now(); time.Since(start) < b.each; {
		}
	}
}

// BenchmarkLaunch tells what it costs to share work: the nanoseconds beyond those
// that its longest part takes. Launches come one after the other (hot), or after a
// pause in which workers fall asleep (cold), whose halves are longer than a wake takes.
func BenchmarkLaunch(b *testing.B) {
	for name, pause := range map[string]time.Duration{"hot": 0, "cold": time.Millisecond} {
		b.Run(name, func(b *testing.B) {
			p := New(2)
			defer p.Close()
			work := busy{20*time.Microsecond + pause/4}
			best, total := time.Hour, time.Duration(0)
			for range b.N {
				time.Sleep(pause)
				start := time.Now()
				p.Run(2, work)
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
