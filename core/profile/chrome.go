package profile

import (
	"encoding/json"
	"os"
	"strconv"
)

// The format of chrome://tracing, which Perfetto reads: "Trace Event Format",
// docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Times are
// in microseconds, of X complete events, of i instants on a thread, of M metadata.

type chromeFile struct {
	TraceEvents     []chromeEvent `json:"traceEvents"`
	DisplayTimeUnit string        `json:"displayTimeUnit"`
	OtherData       chromeOther   `json:"otherData"`
}

type chromeOther struct {
	Version     string  `json:"hologram"`
	StartUnixUS float64 `json:"start_unix_us"` // of ts 0
	Dropped     int64   `json:"dropped"`       // events that there was no room for
}

type chromeEvent struct {
	Name     string   `json:"name"`
	Category string   `json:"cat,omitempty"`
	Phase    string   `json:"ph"`
	Time     float64  `json:"ts"`
	Duration *float64 `json:"dur,omitempty"`
	Process  int      `json:"pid"`
	Thread   int64    `json:"tid"`
	Scope    string   `json:"s,omitempty"`
	Args     any      `json:"args"`
}

type chromeArgs struct {
	Of        string   `json:"of,omitempty"`
	Operands  string   `json:"operands,omitempty"`
	Bytes     int64    `json:"bytes,omitempty"`
	Bandwidth float64  `json:"GB/s,omitempty"`
	Queued    *float64 `json:"queue_us,omitempty"`
	Error     string   `json:"error,omitempty"`
}

type chromeName struct {
	Name string `json:"name"`
}

type chromeOrder struct {
	Order int64 `json:"sort_index"`
}

// firstStream is behind the numbers of threads, in a signed number of 32 bits.
const firstStream = 1 << 30

func (e *Event) number() int64 {
	if e.track != nil {
		return firstStream + e.track.number
	}
	return e.thread
}

func micro(ns int64) float64 { return float64(ns) / 1000 }

// Chrome writes the events so far as JSON in Chrome's trace event format, for
// Perfetto too. version is the library's. The caller has room for so many bytes: a
// text that is longer is kept, and given to the next who has room for it, whatever
// has happened since, so that who asks for a size and then for the text gets it.
func (p *Profile) Chrome(version string, room int) ([]byte, error) {
	p.mu.Lock()
	kept := p.text
	if kept != nil && len(kept) <= room {
		p.text = nil
		p.mu.Unlock()
		return kept, nil
	}
	p.mu.Unlock()
	list, dropped := p.events()
	pid := os.Getpid()
	meta := func(name string, thread int64, args any) chromeEvent {
		return chromeEvent{Name: name, Phase: "M", Process: pid, Thread: thread, Args: args}
	}
	events := []chromeEvent{meta("process_name", 0, chromeName{"hologram"})}
	seen := map[int64]bool{}
	for i := range list {
		e := &list[i]
		n := e.number()
		if !seen[n] {
			seen[n] = true
			name := "thread " + strconv.FormatInt(n, 10)
			if e.track != nil {
				name = e.track.name
			}
			events = append(events, meta("thread_name", n, chromeName{name}), meta("thread_sort_index", n, chromeOrder{n}))
		}
		args := chromeArgs{Of: e.Of, Operands: e.Operands, Bytes: e.Bytes, Error: e.Error}
		made := chromeEvent{Name: e.Name, Category: e.Kind.String(), Phase: "i", Scope: "t", Time: micro(e.Start - p.started), Process: pid, Thread: n}
		if e.Took != Instant {
			took := micro(e.Took)
			made.Phase, made.Scope, made.Duration = "X", "", &took
			if e.track != nil {
				queued := micro(e.Queued)
				args.Queued = &queued
				args.Bandwidth = float64(e.Bytes) / float64(max(e.Took, 1))
			}
		}
		made.Args = args
		events = append(events, made)
	}
	text, err := json.Marshal(chromeFile{events, "ns", chromeOther{version, float64(p.wall.UnixNano()) / 1000, dropped}})
	if err != nil {
		return nil, err
	}
	if len(text) > room {
		p.mu.Lock()
		if !p.closed {
			p.text = text
		}
		p.mu.Unlock()
	}
	return text, nil
}
