package workers

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// failing panics in the midst of its chunks.
type failing struct{ *counter }

func (f failing) Run(j *Job, at Seat) {
	for i, ok := j.Next(&at); ok; i, ok = j.Next(&at) {
		f.seen[i].Add(1)
		if i == 7 {
			panic("seven")
		}
	}
}

// TestPoolsInUse has callers share pools whose threads become more and fewer, whose tasks panic,
// and that are closed meanwhile, beside the collector, with as many processors as there happen to be.
func TestPoolsInUse(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	over := time.Now().Add(time.Second)
	var ran atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for round := 0; time.Now().Before(over); round++ {
			runtime.GOMAXPROCS(1 + round%3)
			p := New(1 + round%17)
			var callers sync.WaitGroup
			for c := range 4 {
				callers.Go(func() {
					for i := range 40 {
						if c == 3 {
							p.SetThreads(1 + (i*7+round)%19)
							p.Share(float64(i) * 5e3)
							time.Sleep(time.Duration(i%4) * 40 * time.Microsecond)
						}
						if c == 2 && i == 30 && round%2 == 0 {
							p.Close()
						}
						if c == 1 && i%5 == 0 {
							func() {
								defer func() {
									if recover() == nil {
										t.Error("it did not panic")
									}
								}()
								p.Run(20, failing{newCounter(20)})
							}()
							continue
						}
						k := newCounter(1 + (i*13+c)%90)
						p.Run(len(k.seen), k)
						for j := range k.seen {
							if n := k.seen[j].Load(); n != 1 {
								t.Errorf("chunk %d ran %d times", j, n)
							}
						}
						ran.Add(1)
						if i%16 == 0 {
							runtime.GC()
						}
					}
				})
			}
			callers.Wait()
			if n := p.wanted.Load(); n != 0 {
				t.Errorf("%d workers are wanted when nothing runs", n)
			}
			p.Close()
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatalf("stuck after %d", ran.Load())
	}
}
